#!lua flags=allow-oom
-- Says that a node is alive for so many milliseconds (0: that it leaves), and who else is.
-- KEYS: nodes. ARGV: node, milliseconds. Reply: names of all nodes that are alive.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if ARGV[2] == '0' then
    redis.call('ZREM', KEYS[1], ARGV[1])
else
    redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
return redis.call('ZRANGE', KEYS[1], 0, -1)
