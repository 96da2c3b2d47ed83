-- Records that a node is alive, and counts the nodes that are. KEYS: their set. ARGV: the node, and the
-- seconds after which a node without a heartbeat is dead.
local now, alive = redis.call('TIME')[1] + 0, ARGV[2] + 0
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - alive - 1)
redis.call('EXPIRE', KEYS[1], 10 * alive)
return redis.call('ZCARD', KEYS[1])
