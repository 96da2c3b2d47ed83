-- Slots: a sorted set of holders by the microsecond at which each lapses. ARGV: limit, time to live in µs,
-- holder, what to do ('a' acquires or renews, else releases), the caller's clock in µs where that one counts.
--
-- The key is kept for as long again, so that the next call can say how many have lapsed.
--
-- Returns: 0 (no slot), 1 (acquired or released) or 2 (renewed), how many had lapsed, how many are held, µs
-- until the first and the last of them lapse.
local key, limit, ttl, holder = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local now = tonumber(ARGV[5])
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2]
end
local expired = redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
local done = 0
if ARGV[4] ~= 'a' then
  done = redis.call('ZREM', key, holder)
elseif redis.call('ZSCORE', key, holder) then
  done = 2
elseif redis.call('ZCARD', key) < limit then
  done = 1
end
if done > 0 and ARGV[4] == 'a' then
  redis.call('ZADD', key, now + ttl, holder)
end
local held = redis.call('ZCARD', key)
if held == 0 then
  return {done, expired, 0, 0, 0}
end
local first = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]
local last = redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')[2]
redis.call('PEXPIREAT', key, math.ceil((last + ttl) / 1000))
return {done, expired, held, first - now, last - now}
