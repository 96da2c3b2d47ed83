-- Classes of priority: a token bucket that is split by weight, and whose classes borrow what others leave
-- idle. The key holds: what wrote it and the units of a permit, the last instant in ns, and what each class
-- lacks, in units. The numbers are those of `core`, in products beyond 2^128: hence big.lua.
--
-- Arguments:
-- * head: what the caller's rule writes first, the units of a permit in it. permit: these units. inflow:
--   units that flow in per ns. classes: how many there are.
-- * The weight of each class.
-- * n > 0: n takes of `cost` by the class-th class, which may have `burst` at once. 0: a charge, of all that
--   a class may owe at most `burst` permits. -1: given back. -2: forgotten.
-- * go: 0 only try, 1 do, 2 nothing.
local function priority(key, arg, go)
  local head, permit, inflow, classes, at = struct.unpack('<sssd', arg)
  local cells, expires, v = numbers_of(key, head, 1)
  if not cells then
    return -1, expires, v
  end
  permit, inflow = big(permit), big(inflow)
  local weights, missing = {}, {}
  for i = 1, classes do
    weights[i], at = struct.unpack('<d', arg, at)
    missing[i] = cells[1 + i] or {}
  end
  local now = nanos(ms, ns)
  local last = cells[1] or now

  local function lacking()
    local sum = {}
    for i = 1, classes do
      sum = plus(sum, missing[i])
    end
    return sum
  end
  -- What has come since flows to the classes that are not full, by weight, in whole units.
  local function fill(units)
    if not below(units, lacking()) then
      for i = 1, classes do
        missing[i] = {}
      end
      return
    end
    local weight = 0
    for i = 1, classes do
      weight = weight + (#missing[i] > 0 and weights[i] or 0)
    end
    local function part(i)
      return (over(times(units, small(weights[i])), small(weight)))
    end
    -- A class that its part fills is full in the end: what it leaves only makes the others' parts larger.
    local filled = true
    while filled do
      filled = false
      for i = 1, classes do
        if #missing[i] > 0 and not below(part(i), missing[i]) then
          units, weight, filled = minus(units, missing[i]), weight - weights[i], true
          missing[i] = {}
        end
      end
    end
    local rest = units
    for i = 1, classes do
      if #missing[i] > 0 then
        local own = part(i)
        missing[i], rest = minus(missing[i], own), minus(rest, own)
      end
    end
    for i = 1, classes do
      if #rest > 0 and #missing[i] > 0 then
        missing[i], rest = minus(missing[i], {1}), minus(rest, {1})
      end
    end
  end
  if below(last, now) then
    fill(times(inflow, minus(now, last)))
    last = now
  end

  local wrote, gone, ok = false, false, 1
  while at <= #arg do
    local n, cost, class, burst
    n, cost, class, burst, at = struct.unpack('<dddd', arg, at)
    local units = times(small(cost), permit)
    if n > 0 then
      local room = minus(times(small(burst), permit), missing[class])
      local fits = n
      if cost > burst or below(times(small(burst - cost), permit), missing[class]) then
        fits = 0
      elseif cost > 0 then
        fits = value(least((over(room, units)), small(n)))
      end
      if fits < n then
        ok = 0
      end
      if fits > 0 and cost > 0 then
        missing[class], wrote = plus(missing[class], times(units, small(fits))), true
      end
    elseif n == 0 and cost > 0 then
      local most = times(small(burst), permit)
      missing[class], wrote = least(plus(missing[class], units), most), true
    elseif n == -1 and cost > 0 and #missing[class] > 0 then
      missing[class], wrote = minus(missing[class], units), true
    elseif n == -2 then
      for i = 1, classes do
        missing[i] = {}
      end
      last, wrote, gone = now, false, true
    end
  end
  if go == 1 and wrote then
    local text = {head .. digits(last)}
    for i = 1, classes do
      text[i + 1] = digits(missing[i])
    end
    local full_at = plus(last, over_up(lacking(), inflow))
    redis.call('SET', key, table.concat(text, ' '), 'PXAT', expiry_ms(full_at, 0))
  elseif go == 1 and gone then
    redis.call('DEL', key)
  end
  return ok, -1, v
end
