-- Tells that a node lives, and counts those that do. KEYS: their set. ARGV: the node, and seconds after which one that says nothing is dead.
local now, alive = redis.call('TIME')[1] + 0, ARGV[2] + 0
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - alive - 1)
redis.call('EXPIRE', KEYS[1], 10 * alive)
return redis.call('ZCARD', KEYS[1])
