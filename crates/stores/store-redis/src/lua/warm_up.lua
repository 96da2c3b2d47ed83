-- Takes that pay for those before: a rate that warms up, and one that bursts. The key holds the cells of the
-- state as `core` has them: what wrote it, units in a ns, units of a whole store, the instant from which on
-- the key is free (ns, and units within), and what its store lacks. The numbers are those of `core`, in
-- products of up to 2^128: hence big.lua.
--
-- Arguments:
-- * head: the first three cells of what the caller's rate writes. scale: units in a ns. cold: the cold
--   factor; 0 where stored permits cost nothing. keep: ms that the key outlives the full store.
-- * interval, refill: units of a permit, and until one more is stored. full: units of a whole store. most:
--   a take above never passes. owed_most: how far ahead a key may be free, in units.
-- * n > 0: n takes of `cost`, each of which may wait for `wait`. 0: a charge. -1: given back. -2: forgotten.
-- * go: 0 only try, 1 do, 2 only let it begin to store.
local LATEST_NS, MOST_MISSING = '3221225471000000000', '18446744073709551615'
local function warm_up(key, arg, go)
  local head, interval, refill, full, most, owed_most, scale, cold, keep, n, high, low, wait_ms, wait, at =
    struct.unpack('<ssssssdddddddd', arg)
  local cells, expires, v = numbers_of(key, head, 3)
  if not cells then
    return -1, expires, v
  end
  interval, refill, full, most, owed_most = big(interval), big(refill), big(full), big(most), big(owed_most)
  scale = small(scale)
  local now = times(nanos(ms, ns), scale)

  -- The key at now: what was unused is stored.
  local function as_of(free, missing)
    if below(now, free) then
      return free, missing
    end
    return now, minus(least(missing, full), minus(now, free))
  end
  local function fresh()
    return now, cold == 0 and full or {}
  end
  local free, missing = fresh()
  if v then
    free, missing = as_of(plus(times(cells[1], scale), cells[2]), cells[3])
  end

  local cold_number, share = small(cold), small(5 + cold)
  local four_full, by = times({4}, full), times(small(1 + cold), full)
  -- What all permits above the threshold cost more than others.
  local function coldness(lacks)
    local above = minus(four_full, times(share, lacks))
    local square = over(times(above, above), {16})
    return (over(times(minus(cold_number, {1}), square), by))
  end
  local function price(permits, before, after)
    if cold == 0 then
      return minus(minus(after, full), minus(before, full))
    end
    return minus(plus(times(permits, interval), coldness(before)), coldness(after))
  end
  local function taken(permits)
    local after = plus(missing, times(permits, refill))
    return plus(free, price(permits, missing, after)), after
  end

  local wrote, gone, ok, begins = false, false, 1, cold == 0 and not v
  while true do
    local cost = plus(times(small(high), {BASE}), small(low))
    if n > 0 then
      local longest = times(nanos(wait_ms, wait), scale)
      if below(most, cost) then
        ok, wrote = 0, wrote or begins and go == 1
      end
      while n > 0 and not below(most, cost) do
        -- The first that is denied is as all that follow.
        if below(longest, minus(free, now)) then
          ok = 0
          break
        end
        if #cost == 0 then
          break
        end
        local then_free, then_missing = taken(cost)
        if below(owed_most, minus(then_free, now)) then
          ok = 0
          break
        end
        free, missing, wrote, n = then_free, then_missing, true, n - 1
        if cold == 0 and n > 1 then
          -- Those that only take what is stored, at once.
          local stored = over(minus(full, missing), times(cost, refill))
          local times_more = least(stored, small(n))
          missing, n = plus(missing, times(times_more, times(cost, refill))), n - value(times_more)
        end
      end
      if go == 2 and begins and #cost > 0 then
        free, missing = fresh()
        wrote = true
        break
      end
    elseif n == 0 and #cost > 0 then
      local was = free
      free, missing = taken(cost)
      local latest = times(big(LATEST_NS), scale)
      free = least(free, below(was, latest) and latest or was)
      missing, wrote = least(missing, big(MOST_MISSING)), true
    elseif n == -1 and #cost > 0 and (cold == 0 or below(now, free)) then
      local permits = least(cost, (over(missing, refill)))
      local before = minus(missing, times(permits, refill))
      free, missing = as_of(minus(free, price(permits, before, missing)), before)
      wrote = true
    elseif n == -2 then
      free, missing = fresh()
      wrote, gone, begins = false, true, cold == 0
    end
    if at > #arg then
      break
    end
    n, high, low, wait_ms, wait, at = struct.unpack('<ddddd', arg, at)
  end
  if wrote and (go == 1 or go == 2 and begins) then
    local free_ns, rest = over(free, scale)
    local full_at = over_up(plus(free, least(missing, full)), scale)
    local text = head .. digits(free_ns) .. ' ' .. digits(rest) .. ' ' .. digits(missing)
    redis.call('SET', key, text, 'PXAT', expiry_ms(full_at, keep))
  elseif go == 1 and gone then
    redis.call('DEL', key)
  end
  return ok, -1, v
end
