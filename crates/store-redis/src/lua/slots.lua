-- Slots: a sorted set of holders by the microsecond at which each lapses. ARGV: limit, time to live in µs,
-- holder, what to do ('a' acquires or renews, else releases), the caller's clock in µs where that one counts.
--
-- Returns: done or not, how many are held, µs until the first and the last of them lapse.
local key, limit, ttl, holder = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local now = tonumber(ARGV[5])
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2]
end
redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
local done
if ARGV[4] ~= 'a' then
  done = redis.call('ZREM', key, holder)
elseif redis.call('ZCARD', key) < limit or redis.call('ZSCORE', key, holder) then
  redis.call('ZADD', key, now + ttl, holder)
  done = 1
else
  done = 0
end
local held = redis.call('ZCARD', key)
if held == 0 then
  return {done, 0, 0, 0}
end
local first = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]
local last = redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')[2]
redis.call('PEXPIREAT', key, math.ceil(last / 1000))
return {done, held, first - now, last - now}
