-- How often a span fits in another, and the rest; both are ms, and ns within a ms. Exact while the quotient
-- times the span's ns stays below 2^53. The first span may be negative; the rest is then still from 0 to
-- below the second.
local function divide(a_ms, a, by_ms, by)
  local q = math.floor((a_ms * 1000000 + a) / (by_ms * 1000000 + by))
  for _ = 1, 8 do
    local r_ms, r = a_ms - q * by_ms, a - q * by
    local carry = math.floor(r / 1000000)
    r_ms, r = r_ms + carry, r - carry * 1000000
    if r_ms < 0 then
      q = q - 1
    elseif r_ms > by_ms or r_ms == by_ms and r >= by then
      q = q + 1
    else
      return q, r_ms, r
    end
  end
  return q, 0, 0
end

-- Whether `divide` by this may be inexact: outside of one such span, more than 90 days away, and with ns to
-- multiply. (A number of spans times their ns is at most the ns of all of them: below 2^53 for 104 days.)
local function is_far(a_ms, by_ms, by)
  return by > 0 and math.abs(a_ms) > 7776000000 and (a_ms < 0 or a_ms > by_ms)
end
