-- Two windows on the grid, the older weighted by its overlap and rounded down. The key holds the length of a
-- window in ns, the number of the later window, its count, and the count of the window before.
--
-- number, from: the window that the caller believes to contain now. Groups as in window.lua, but denials
-- never count.
--
-- go: 0 only try, 1 do, 2 nothing.
--
-- Returns -2 where that window is too far from now to be counted from.

-- floor(count * span / whole): exact. Spans are ms, and ns within.
local function share(count, o_ms, o, w_ms, w)
  if count == 0 then
    return 0
  end
  if count > 549755813887 then
    -- More than a double holds: the quotient of doubles, which is near, is made smaller or greater until it is
    -- right. In limbs of 10^6. (A function of its own, so that calls without it are as short as possible.)
    local function of_many()
      local M = 1000000
      local function limbs(high, low)
        local middle = high % M
        return {low, middle, (high - middle) / M}
      end
      local function of_count(x)
        local low = x % M
        return limbs((x - low) / M, low)
      end
      local function times(x, y)
        local d = {0, 0, 0, 0, 0, 0}
        for i = 1, 3 do
          for j = 1, 3 do
            d[i + j - 1] = d[i + j - 1] + x[i] * y[j]
          end
        end
        for i = 1, 5 do
          local low = d[i] % M
          d[i], d[i + 1] = low, d[i + 1] + (d[i] - low) / M
        end
        return d
      end
      local function below(x, y)
        for i = 6, 1, -1 do
          if x[i] ~= y[i] then
            return x[i] < y[i]
          end
        end
        return false
      end
      local all, by = times(of_count(count), limbs(o_ms, o)), limbs(w_ms, w)
      local q = math.floor(count * ((o_ms * M + o) / (w_ms * M + w)))
      while below(all, times(of_count(q), by)) do
        q = q - 1
      end
      while not below(all, times(of_count(q + 1), by)) do
        q = q + 1
      end
      return q
    end
    return of_many()
  end
  local q = count * ((o_ms * 1000000 + o) / (w_ms * 1000000 + w))
  local near = math.floor(q + 0.5)
  if math.abs(q - near) > 0.001 then
    return math.floor(q)
  end
  -- Too near to a whole number for a double: compare count * span with near * whole, in limbs of 10^6.
  local M = 1000000
  local function add(d, x, y_ms, y, sign)
    local x0, y1 = x % M, y_ms % M
    local x1, y2 = (x - x0) / M, (y_ms - y1) / M
    d[1], d[2] = d[1] + sign * x0 * y, d[2] + sign * (x0 * y1 + x1 * y)
    d[3], d[4] = d[3] + sign * (x0 * y2 + x1 * y1), d[4] + sign * x1 * y2
  end
  local d = {0, 0, 0, 0}
  add(d, count, o_ms, o, 1)
  add(d, near, w_ms, w, -1)
  for i = 1, 3 do
    d[i + 1] = d[i + 1] + math.floor(d[i] / M)
  end
  return d[4] < 0 and near - 1 or near
end

local COUNTER_MOST = 9007199254740991
local function counter(key, arg, go)
  local limit, w_ms, w, number, from_ms, from, whole, n, cost, hold, at = struct.unpack('<ddddddsddd', arg)
  local v = redis.call('GET', key)
  if is_far(ms - from_ms, w_ms, w) then
    return -2, -1, v
  end
  local passed, in_ms, into = divide(ms - from_ms, ns - from, w_ms, w)
  number = number + passed
  local ahead, now, before = 0, 0, 0
  if v then
    local length, a, b, c = string.match(v, '^(%d+) (%d+) (%d+) (%d+)$')
    if length ~= whole then
      return -1, redis.call('PEXPIRETIME', key), v
    end
    ahead = math.max(0, tonumber(a) - number)
    if tonumber(a) == number or ahead > 0 then
      now, before = tonumber(b), tonumber(c)
    elseif tonumber(a) == number - 1 then
      before = tonumber(b)
    end
  end
  -- What is left of the window; after a step back the clock stands still at the beginning of the later one.
  local rest_ms, rest = w_ms - in_ms, w - into
  if rest < 0 then
    rest_ms, rest = rest_ms - 1, rest + 1000000
  end
  local o_ms, o = w_ms, w
  if ahead == 0 then
    o_ms, o = rest_ms, rest
    local back_ms, back = ms % 1000, ns
    if before > 0 and now == 0 and (back_ms < in_ms or back_ms == in_ms and back <= into) then
      -- What weighed nothing when this second began has been forgotten since.
      local then_ms, then_ns = o_ms + back_ms, o + back
      if then_ns >= 1000000 then
        then_ms, then_ns = then_ms + 1, then_ns - 1000000
      end
      if share(before, then_ms, then_ns, w_ms, w) == 0 then
        before = 0
      end
    end
  end
  local write, gone, ok = false, false, 1
  while true do
    if n > 0 then
      local used, fit = share(before, o_ms, o, w_ms, w) + now, n
      if cost > 0 then
        fit = math.max(0, math.min(n, math.floor((limit - used) / cost)))
        write = write or fit > 0
      elseif used > limit then
        fit = 0
      end
      now = now + fit * cost
      if fit < n then
        ok = 0
      end
    elseif n == 0 then
      now = math.max(now, math.min(COUNTER_MOST, now + cost))
      write = write or cost > 0
    elseif n == -1 then
      local of_now = math.min(now, cost)
      now, before = now - of_now, math.max(0, before - (cost - of_now))
      write = write or cost > 0
    elseif n == -2 then
      now, before = 0, 0
    end
    if now == 0 and before == 0 and n > -3 then -- as an unseen key
      ahead, o_ms, o, write = 0, rest_ms, rest, false
      -- A look deletes nothing: for a caller whose clock is behind, the key may still count.
      gone = gone or n < 0
    end
    if at > #arg then
      break
    end
    n, cost, hold, at = struct.unpack('<ddd', arg, at)
  end
  if go == 1 and write then
    -- It counts until the end of the next window at most.
    local windows = ahead + (now > 0 and 2 or 1)
    local till_ms, till = ms - in_ms + windows * w_ms, ns - into + windows * w
    local text = string.format('%s %d %d %d', whole, number + ahead, now, before)
    redis.call('SET', key, text, 'PXAT', till_ms + math.ceil(till / 1000000))
  elseif go == 1 and gone and v then
    redis.call('DEL', key)
  end
  return ok, -1, v
end
