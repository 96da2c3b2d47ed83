-- Token bucket that gets `limit` back at the end of each period, counted from its first take. The key holds
-- when the current period began, in ms and ns, and the permits that are missing. It expires `keep` ms after
-- none is missing.
--
-- Groups: n and cost as in window.lua, and the most that may be missing when it fits.
--
-- go: 0 only try, 1 do, 2 only let it begin to fill.
local INTERVAL_MOST = 9007199254740991
local function interval(key, arg, go)
  local limit, every_ms, every, keep, lacks, n, cost, room, at = struct.unpack('<dddddddd', arg)
  local v = redis.call('GET', key)
  local from_ms, from, missing = ms, ns, lacks
  local short, write, gone, ok = not v and lacks > 0, false, false, 1
  if v then
    local a, b, c = string.match(v, '^(%d+) (%d+) (%d+)$')
    if not a then
      return -1, -1, v
    end
    from_ms, from, missing = tonumber(a), tonumber(b), tonumber(c)
    local passed_ms, passed = ms - from_ms, ns - from
    if passed_ms > 0 or passed_ms == 0 and passed > 0 then
      local periods, rest_ms, rest = divide(passed_ms, passed, every_ms, every)
      missing = math.max(0, missing - periods * limit)
      from_ms, from = ms - rest_ms, ns - rest
      if from < 0 then
        from_ms, from = from_ms - 1, from + 1000000
      end
    end
  end
  while true do
    local was = missing
    if n > 0 then
      local fit = 0
      if missing <= room then
        fit = n
        if cost > 0 then
          fit = math.min(n, math.floor((room - missing) / cost) + 1)
        end
      end
      missing = missing + fit * cost
      if fit < n then
        ok = 0
        write = write or short and cost > 0
      end
      if go == 2 and short and cost > 0 then
        missing, write = lacks, true
        break
      end
    elseif n == 0 then
      missing = math.max(missing, math.min(INTERVAL_MOST, missing + cost))
    elseif n == -1 then
      missing = math.max(0, missing - cost)
    elseif n == -2 then
      from_ms, from, missing = ms, ns, lacks
      was, write, gone, short = missing, false, true, lacks > 0
    end
    write = write or missing ~= was
    if was == 0 and missing > 0 and (from_ms < ms or from_ms == ms and from < ns) then
      from_ms, from = ms, ns -- what takes from a full bucket begins a period
    end
    if at > #arg then
      break
    end
    n, cost, room, at = struct.unpack('<ddd', arg, at)
  end
  if go == 1 and write or go == 2 and short and write then
    local periods = math.ceil(missing / limit)
    local full = from_ms + periods * every_ms + math.ceil((from + periods * every) / 1000000) + keep
    local text = string.format('%d %d %d', from_ms, from, missing)
    redis.call('SET', key, text, 'PXAT', string.format('%.0f', math.min(full, 9e15)))
  elseif go == 1 and gone then
    redis.call('DEL', key)
  end
  return ok, -1, v
end
