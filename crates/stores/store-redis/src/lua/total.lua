-- A quota that never refills: the key holds what was taken, and does not expire. Groups as in window.lua.
--
-- go: 0 only try, 1 do, 2 nothing.
local TOTAL_MOST = 9007199254740991
local function total(key, arg, go)
  local stock, n, cost, hold, at = struct.unpack('<dddd', arg)
  local v = redis.call('GET', key)
  local held, stale = v and tonumber(v), false
  -- The rule's limit became 0: what it counted, which is a large number or a text and expires, counts nothing
  -- here.
  if v and (not held and string.find(v, '^%d+ [%d ]+$') or held and math.abs(held) >= 1000000) then
    stale = redis.call('PEXPIRETIME', key) > 0
    if stale then
      v, held = false, nil
    end
  end
  if v and (not held or held < 0 or held > TOTAL_MOST or held % 1 > 0) then
    return -1, -1, v
  end
  local used = held or 0
  local was, gone, ok = used, false, 1
  while true do
    if n > 0 then
      local fit = n
      if cost > 0 then
        fit = math.max(0, math.min(n, math.floor((stock - used) / cost)))
      elseif used > stock then
        fit = 0
      end
      if fit < n then
        ok = 0
      end
      used = used + fit * cost
    elseif n == 0 then
      used = math.min(TOTAL_MOST, used + cost)
    elseif n == -1 then
      used = math.max(0, used - cost)
    elseif n == -2 then
      used, was, gone = 0, 0, true
    end
    if at > #arg then
      break
    end
    n, cost, hold, at = struct.unpack('<ddd', arg, at)
  end
  if go == 1 and (gone or used == 0) and v then
    redis.call('DEL', key)
    was = 0
  end
  if go == 1 and stale and (gone or used ~= was) then
    redis.call('DEL', key)
  end
  if go == 1 and used ~= was then
    redis.call('INCRBY', key, string.format('%d', used - was))
  end
  return ok, -1, held
end
