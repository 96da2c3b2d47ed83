-- Fixed window: the hits of the current window. The key holds (hits + 1) * 10^6 + the ns by which the window
-- ends before the key expires. More than NEAR hits are held in words: hits, and these ns; such a window ends at
-- a whole 20 ms, as in core.
--
-- Arguments:
-- * from, to: the window that the caller believes to contain now, two limbs each; or from_ms is -1 and `to`
--   is how long a window lasts from its first hit.
-- * n > 0: n takes of `cost`, which count when they are denied too, unless `hold` is 1. 0: a charge. -1:
--   given back. -2: forgotten. Anything less changes nothing.
-- * go: 0 only try, 1 do, 2 nothing.
--
-- Returns -2 where now is outside the caller's window.
local MOST, NEAR = 9007199254740991, 17179869183
local function window(key, arg, go)
  local from_ms, from, to_ms, to, limit, n, cost, hold, at = struct.unpack('<dddddddd', arg)
  local v, E = redis.call('GET', key), -2
  local hits, left, open, held = 0, 0, false, v
  if v then
    E = redis.call('PEXPIRETIME', key)
    held = tonumber(v)
    if held then
      if held < 1000000 or held % 1 > 0 or E < 0 then
        return -1, E, v
      end
      left = held % 1000000
      hits = (held - left) / 1000000 - 1
      if held > 9e15 then -- more than a double holds
        held, left, hits = v, tonumber(string.sub(v, -6)), tonumber(string.sub(v, 1, -7)) - 1
      end
    else
      local of_hits, of_left = string.match(v, '^(%d+) (%d+)$')
      if not of_hits or E < 0 then
        return -1, E, v
      end
      held, hits, left = v, tonumber(of_hits), tonumber(of_left)
    end
    open = (E - ms) * 1000000 > left + ns
    if not open then
      hits = 0
    end
  end
  local was, top, begun, gone, ok = hits, hits, open, false, 1
  local most = limit < NEAR and NEAR or MOST -- as core: hits above a small limit say nothing more
  while true do
    if n > 0 then
      local fit = n
      if cost > 0 then
        fit = math.max(0, math.min(n, math.floor((limit - hits) / cost)))
      elseif hits > limit then
        fit = 0
      end
      if fit < n then
        ok = 0
      end
      hits = math.max(hits, math.min(most, hits + (hold == 1 and fit or n) * cost))
    elseif n == 0 then
      hits = math.min(MOST, hits + cost)
    elseif n == -1 then
      hits = math.max(0, hits - cost)
    elseif n == -2 then
      hits, was, top, open, begun, gone = 0, 0, 0, false, false, true
    end
    top = math.max(top, hits)
    begun = begun or hits > 0 -- once begun it lasts, also when all is given back
    if at > #arg then
      break
    end
    n, cost, hold, at = struct.unpack('<ddd', arg, at)
  end
  local outside = ms < from_ms or ms == from_ms and ns < from or ms > to_ms or ms == to_ms and ns >= to
  local write = hits ~= was or begun and not open or top > NEAR and top > was
  if write and not open and from_ms >= 0 and outside then
    return -2, E, v
  end
  if go == 1 and write then
    if open and top <= NEAR then
      redis.call('INCRBY', key, string.format('%d', (hits - was) * 1000000))
    else
      if open then
        to_ms, to = E, left > 0 and 1000000 - left or 0
        to_ms = left > 0 and to_ms - 1 or to_ms
      end
      if from_ms < 0 and not open then
        to_ms, to = ms + to_ms, ns + to
        if to >= 1000000 then
          to_ms, to = to_ms + 1, to - 1000000
        end
      end
      if to > 0 then
        to_ms, to = to_ms + 1, 1000000 - to
      end
      local form, count = '%d%06d', hits + 1
      if top > NEAR then
        to_ms, to = math.ceil(to_ms / 20) * 20, 0
      end
      if hits > NEAR then
        form, count = '%d %d', hits
      end
      redis.call('SET', key, string.format(form, count, to), 'PXAT', string.format('%d', to_ms))
    end
  elseif go == 1 and gone then
    redis.call('DEL', key)
  end
  return ok, E, held
end
