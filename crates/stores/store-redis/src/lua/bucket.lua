-- Token bucket with continuous refill, and both leaky buckets. The state is one instant: when the key is full
-- again. That is e ms less b units of the caller's rate, which has `scale` units in a ns and M in a ms. Spans
-- are two limbs: ms, and units within.
--
-- The key holds the same instant, and the interval of a permit at which it is counted, as digits: 16, or 19
-- where parts of a ns are counted too (docs/redis-layout.md). They follow a minus where the key outlives the
-- instant by KEPT ms.
--
-- Arguments:
-- * mark: the digits before the instant that the caller's rate writes, as a number that ends with those of
--   the instant; of 19 digits the last 15.
-- * parts: 10^(digits below a ns); 0: this rate has no form of its own, and is counted in whole ns.
-- * owe: what an unseen key lacks of a full bucket.
-- * n > 0: n takes of `ask`, each of which fits while not more than `room` is owed. 0: a charge, `room` being
--   the deepest debt that it makes. -1: given back. -2: forgotten. -3: nothing.
-- * go: 0 only try, 1 do, 2 only let it begin to fill.
--
-- Returns the state before the step, in the caller's units, whichever rate wrote it.
local LATEST = 3221225471000 -- in ms: no debt ends later
local KEPT = 2592000000
local function bucket(key, arg, go)
  local mark, scale, parts, keep, n, ask_ms, ask, room_ms, room, at = struct.unpack('<ddddddddd', arg, 45)
  local call, M, u = redis.call, scale * 1000000, ns * scale
  local v = call('GET', key)
  local e, b, owe_ms, owe, head = ms, -u, 0, 0, ''
  if parts > 1 then
    head = string.sub(arg, 41, 44)
  end
  if keep > 0 then
    owe_ms, owe = struct.unpack('<dd', arg, 25)
    e, b, head = ms + owe_ms, -u - owe, '-' .. head
  end
  local was_ms, was = e, b
  local short, write, gone, ok = not v and owe_ms + owe > 0, false, false, 1
  local whole, far = parts == 0, false
  if v then
    local E, t = call('PEXPIRETIME', key), -1
    if parts == 1 then
      t = (tonumber(v) or 0) * (keep > 0 and -1 or 1) - mark
    elseif parts > 1 then
      if string.sub(v, 1, #head) == head then
        t = (tonumber(string.sub(v, #head + 1)) or 0) - mark
      end
    end
    if t >= 0 and t < parts * 1000000 and E >= 0 then
      e, b = E - keep, t
      if parts > 1 then
        local below = b % parts
        b = (b - below) / parts * scale + (below < scale and below or scale - 1)
      end
      if e > LATEST then
        e, b = LATEST, 0
      end
    else
      -- Another rate has written it, or this one in whole ns: the permits owed are those by the interval
      -- written there. Never fewer: what a double cannot hold is rounded up, in the state that this step
      -- starts from too. Where the instant carries over instead, the interval is 0. (A function of its own,
      -- as those below, so that calls without it are as short as possible.)
      local function of_another()
        local interval, step, own = struct.unpack('<ddd', arg)
        local owed, is_exact, is_whole, begins = 0, false, parts == 0, false
        local sign, x, rest = string.match(v, '^(-?)(%d%d)(%d+)$')
        local digits = rest and #rest or 0
        if (digits == 14 or digits == 17 and string.find(rest, '^..[2-8]')) and E >= 0 then
          local p, per, within = x - 26, string.sub(rest, 1, 8), string.sub(rest, 9)
          if digits == 17 then
            local d = string.sub(rest, 3, 3) + 0
            p, per = x + d - 29, string.sub(rest, 1, 2) .. string.sub(rest, 4, 12 - d)
            within = string.sub(rest, 13 - d, 18 - d)
          end
          per = p < 0 and per / 10 ^ -p or per * 10 ^ p
          local full = math.min(E - (sign == '-' and KEPT or 0), LATEST)
          if interval == 0 then
            return full, within * scale, false, parts == 0, false -- later than it is, by less than a ns
          end
          local y = (full - ms) * 1000000 - within - ns
          if y > 0 and per > 0 then
            owed, is_exact = y / per, y < 2 ^ 53 and per % 1 == 0 and math.fmod(y, per) == 0
            is_whole = step ~= 1
            -- After a denial too, it comes back at the rate of the last caller.
            local behind = math.abs(tonumber(v)) - own
            begins = behind < 0 or behind > 999999
          end
        elseif interval > 0 and E == -1 and string.find(v, '^%d+$') and tonumber(v) <= 9007199254740991 then
          owed, is_exact, begins = tonumber(v), true, true -- the limit was 0, and what it admitted a total
        else
          return nil
        end
        owed = owed * interval
        if not is_exact or owed >= 2 ^ 53 then
          owed = math.ceil(owed * (1 + 2 ^ -49))
        end
        local too_long = false
        local left = math.fmod(owed, M)
        local full, before = ms + math.floor((owed - left) / M + 0.5), -u - left
        while before < 0 do
          full, before = full + 1, before + M
        end
        if full > LATEST then
          full, before, too_long = LATEST, 0, true
        end
        return full, before, begins, is_whole, too_long
      end
      e, b, short, whole, far = of_another()
      if not e then
        return -1, E, v
      end
    end
    was_ms, was = e, b
    if (e - ms) * M <= b + u then
      e, b = ms, -u
    end
  end
  while true do
    local asks = ask_ms + ask > 0
    if n > 0 then
      if (e - ms - room_ms) * M > b + u + room then
        ok = 0
        write = write or short and asks
      elseif asks then
        if n > 1 then
          -- How often it fits: 2^i at a time, from above. Returns how often, and the state before the last.
          local function often()
            local w_ms, w, i, k = {[0] = ask_ms}, {[0] = ask}, 0, 1
            while 2 ^ (i + 1) < n do
              local twice, over = w[i] * 2, 0
              if twice >= M then
                twice, over = twice - M, 1
              end
              i = i + 1
              w_ms[i], w[i] = w_ms[i - 1] * 2 + over, twice
            end
            local full, before = e, b
            for j = i, 0, -1 do
              if k + 2 ^ j <= n and (full + w_ms[j] - ms - room_ms) * M <= before - w[j] + u + room then
                k, full, before = k + 2 ^ j, full + w_ms[j], before - w[j]
                if before < 0 then
                  full, before = full + 1, before + M
                end
              end
            end
            return k, full, before
          end
          local k
          k, e, b = often()
          if k < n then
            ok = 0
          end
        end
        e, b, write, far = e + ask_ms, b - ask, true, false
      end
    elseif n == 0 then
      if asks and (e - ms - room_ms) * M <= b + u + room then
        e, b = e + ask_ms, b - ask
        if (e - ms - room_ms) * M > b + u + room then
          e, b = ms + room_ms, -u - room
        end
      end
      write = write or asks
    elseif n == -1 then
      if asks and (e - ms) * M > b + u then
        e, b, write = e - ask_ms, b + ask, true
        if (e - ms) * M <= b + u then
          e, b = ms, -u
        end
      end
    elseif n == -2 then
      e, b, write, gone, short = ms + owe_ms, -u - owe, false, true, owe_ms + owe > 0
      whole, far = parts == 0, false
    end
    while b < 0 do
      e, b = e + 1, b + M
    end
    if b >= M then
      e, b = e - 1, b - M
    end
    if e > LATEST then
      e, b = LATEST, 0
    end
    if go == 2 and short and asks and n > 0 then
      e, b, write = was_ms, was, true
      while b < 0 do
        e, b = e + 1, b + M
      end
      break
    end
    if at > #arg then
      break
    end
    n, ask_ms, ask, room_ms, room, at = struct.unpack('<ddddd', arg, at)
  end
  -- A debt that this rate cannot express stays as it is, unless more is taken.
  if write and not far and (go == 1 or go == 2 and short) then
    if whole then
      -- In ns of the written interval; rounded up too.
      local function in_whole_ns()
        local _, step, own = struct.unpack('<ddd', arg)
        local y = math.ceil(((e - ms) * M - b - u) * step * (1 + 2 ^ -49)) + ns
        local full = math.min(ms + math.ceil(y / 1000000), LATEST)
        return full, math.max(0, math.min((full - ms) * 1000000 - y, 999999)), own, keep > 0 and '-' or ''
      end
      e, b, mark, head = in_whole_ns()
    elseif parts > 1 then
      local below = b % scale
      b = (b - below) / scale * parts + below
    end
    call('SET', key, head .. string.format('%d', mark + b), 'PXAT', string.format('%d', e + keep))
  elseif go == 1 and gone then
    call('DEL', key)
  end
  return ok, was_ms, v and was
end
