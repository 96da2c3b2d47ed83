-- Token bucket with continuous refill, and both leaky buckets: one instant, at which the key is full again.
-- It is e ms, less b units; a ms has M units. The key expires `keep` ms after e, and holds b + FP, where FP tells at
-- which rate it was written. All spans are two limbs: ms, and units within a ms.
-- owe: what an unseen key lacks of a full bucket. n > 0: so many takes of `ask`, each of which fits while not more than
-- `room` is owed. 0: a charge, -1: given back, `room` being the deepest debt that is written. -2: forgotten.
-- go: 0 only try, 1 do, 2 only let it begin to fill.
-- FP < 0: a number that another rate has written stays as it is, and only the time that is owed counts, in whole ms.
local LATEST = 3221225471000 -- in ms; a later instant is none of ours
local function bucket(key, arg, go)
  local M, FP, keep, owe_ms, owe, n, ask_ms, ask, room_ms, room, at = struct.unpack('<dddddddddd', arg)
  local u = ns * (M / 1000000)
  local v, E = redis.call('GET', key), -2
  local e, b, held = ms + owe_ms, -u - owe
  local short, write, gone, ok = not v and owe_ms + owe > 0, false, false, 1
  local leaves, stays = FP < 0, false
  if leaves then
    FP = -FP
  end
  if v then
    E = redis.call('PEXPIRETIME', key)
    held = tonumber(v)
    e, b = E - keep, (held or -1) - FP
    if b < 0 or b >= M or E < 0 or e > LATEST then
      if not leaves or not held or held < 1000000 or E < 0 or E > LATEST then
        return -1, E, v
      end
      e, b, keep, stays = E, 0, 0, true
    end
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
          -- How often it fits: 2^i at a time, from above.
          local w_ms, w, i, k = {[0] = ask_ms}, {[0] = ask}, 0, 1
          while 2 ^ (i + 1) < n do
            local twice, over = w[i] * 2, 0
            if twice >= M then
              twice, over = twice - M, 1
            end
            i = i + 1
            w_ms[i], w[i] = w_ms[i - 1] * 2 + over, twice
          end
          for j = i, 0, -1 do
            if k + 2 ^ j <= n and (e + w_ms[j] - ms - room_ms) * M <= b - w[j] + u + room then
              k, e, b = k + 2 ^ j, e + w_ms[j], b - w[j]
              if b < 0 then
                e, b = e + 1, b + M
              end
            end
          end
          if k < n then
            ok = 0
          end
        end
        e, b, write = e + ask_ms, b - ask, true
      end
    elseif n == 0 then
      e, b, write = e + ask_ms, b - ask, true
      if (e - ms - room_ms) * M > b + u + room then
        e, b = ms + room_ms, -u - room
      end
      if (e - LATEST) * M > b then
        e, b = LATEST, 0
      end
    elseif n == -1 then
      if asks and (e - ms) * M > b + u then
        if (e - ms - room_ms) * M > b + u + room then
          e, b = ms + room_ms, -u - room
        end
        e, b, write = e - ask_ms, b + ask, true
        if (e - ms) * M <= b + u then
          e, b = ms, -u
        end
      end
    elseif n == -2 then
      e, b, write, gone, short = ms + owe_ms, -u - owe, false, true, owe_ms + owe > 0
    end
    while b < 0 do
      e, b = e + 1, b + M
    end
    if b >= M then
      e, b = e - 1, b - M
    end
    if go == 2 and short and asks and n > 0 then
      e, b, write = ms + owe_ms, -u - owe, true
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
  if go == 1 and write or go == 2 and short and write then
    redis.call('SET', key, stays and v or string.format('%d', FP + b), 'PXAT', string.format('%d', e + keep))
  elseif go == 1 and gone then
    redis.call('DEL', key)
  end
  return ok, E, held
end
