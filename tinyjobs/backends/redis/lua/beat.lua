-- uses: call
-- Notes what a worker tells of itself and that it was seen now; ARGV[2] is that, which nobody here reads. Some of those
-- that have been silent for longest are forgotten, if that is long enough. The removal first, for a server whose memory
-- is full.
redis.call('HDEL', P .. 'workers', header.worker)
for _, silent in ipairs(redis.call('ZRANGEBYSCORE', P .. 'workers_seen', '-inf', exact(now - tonumber(header.forgotten_after)),
    'LIMIT', 0, 10)) do
    redis.call('HDEL', P .. 'workers', silent)
    redis.call('ZREM', P .. 'workers_seen', silent)
end
redis.call('HSET', P .. 'workers', header.worker, ARGV[2])
redis.call('ZADD', P .. 'workers_seen', now_text, header.worker)
return 1
