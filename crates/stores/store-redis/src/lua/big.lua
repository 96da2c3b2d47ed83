-- Whole numbers of any size, none negative: limbs of seven digits each, the lowest first, none for zero. A
-- product of two limbs and what is carried stay far below 2^53.
local BASE = 10000000

local function trimmed(a)
  while #a > 0 and a[#a] == 0 do
    a[#a] = nil
  end
  return a
end

-- Of a double, a whole number below 2^53.
local function small(number)
  local a = {}
  while number > 0 do
    local low = math.fmod(number, BASE)
    a[#a + 1] = low
    number = (number - low) / BASE
  end
  return a
end

-- Of its digits.
local function big(text)
  local a = {}
  for last = #text, 1, -7 do
    a[#a + 1] = tonumber(string.sub(text, math.max(1, last - 6), last))
  end
  return trimmed(a)
end

-- As a double, rounded where that cannot hold it.
local function value(a)
  local sum = 0
  for i = #a, 1, -1 do
    sum = sum * BASE + a[i]
  end
  return sum
end

local function digits(a)
  if #a == 0 then
    return '0'
  end
  local out = {string.format('%d', a[#a])}
  for i = #a - 1, 1, -1 do
    out[#out + 1] = string.format('%07d', a[i])
  end
  return table.concat(out)
end

local function below(a, b)
  if #a ~= #b then
    return #a < #b
  end
  for i = #a, 1, -1 do
    if a[i] ~= b[i] then
      return a[i] < b[i]
    end
  end
  return false
end

local function plus(a, b)
  local sum, carry = {}, 0
  for i = 1, math.max(#a, #b) do
    local limb = (a[i] or 0) + (b[i] or 0) + carry
    carry = limb >= BASE and 1 or 0
    sum[i] = limb - carry * BASE
  end
  if carry > 0 then
    sum[#sum + 1] = carry
  end
  return sum
end

-- Zero where b is the greater.
local function minus(a, b)
  if below(a, b) then
    return {}
  end
  local rest, borrowed = {}, 0
  for i = 1, #a do
    local limb = a[i] - (b[i] or 0) - borrowed
    borrowed = limb < 0 and 1 or 0
    rest[i] = limb + borrowed * BASE
  end
  return trimmed(rest)
end

local function times(a, b)
  if #a == 0 or #b == 0 then
    return {}
  end
  local product = {}
  for i = 1, #a + #b do
    product[i] = 0
  end
  for i = 1, #a do
    local carry = 0
    for j = 1, #b do
      local limb = product[i + j - 1] + a[i] * b[j] + carry
      carry = math.floor(limb / BASE)
      product[i + j - 1] = limb - carry * BASE
    end
    product[i + #b] = carry
  end
  return trimmed(product)
end

-- How often b, which is not zero, fits in a, and the rest.
local function over(a, b)
  if below(a, b) then
    return {}, a
  end
  local quotient, rest = {}, {}
  for i = 1, #a do
    quotient[i] = 0
  end
  if #b == 1 then
    local left, by = 0, b[1]
    for i = #a, 1, -1 do
      local limb = left * BASE + a[i]
      left = math.fmod(limb, by)
      quotient[i] = (limb - left) / by
    end
    rest[1] = left
  else
    local by = value(b)
    for i = #a, 1, -1 do
      table.insert(rest, 1, a[i])
      trimmed(rest)
      -- Off by one at most, since doubles are.
      local limb = math.floor(value(rest) / by)
      local product = times(b, small(limb))
      if below(rest, product) then
        limb, product = limb - 1, minus(product, b)
      end
      rest = minus(rest, product)
      if not below(rest, b) then
        limb, rest = limb + 1, minus(rest, b)
      end
      quotient[i] = limb
    end
  end
  return trimmed(quotient), trimmed(rest)
end

-- As `over`, rounded up.
local function over_up(a, b)
  local quotient, rest = over(a, b)
  if #rest > 0 then
    return plus(quotient, {1})
  end
  return quotient
end

local function least(a, b)
  return below(b, a) and b or a
end

-- Nanoseconds, of ms and ns.
local function nanos(of_ms, of_ns)
  return plus(times(small(of_ms), {1000000}), small(of_ns))
end

-- The end of the ms of an instant in ns, as the digits of an expiry that a server accepts.
local function expiry_ms(at, keep)
  return string.format('%d', math.min(value(over_up(at, {1000000})), 1e15) + keep)
end

-- What the key holds, if this store may have written it: whole numbers between blanks after `head`, so many
-- at least. Else nothing, and when it expires and what it is.
local function numbers_of(key, head, fewest)
  local v = redis.call('GET', key)
  if not v then
    return {}
  end
  local out = {}
  if string.sub(v, 1, #head) == head and string.find(v, '^[%d ]+$') then
    for number in string.gmatch(string.sub(v, #head + 1), '%d+') do
      out[#out + 1] = #number < 40 and big(number) or nil
    end
  end
  if #out < fewest then
    return nil, redis.call('PEXPIRETIME', key), v
  end
  return out, -1, v
end
