-- uses: call
-- Forgets a worker that has stopped.
redis.call('ZREM', P .. 'workers_seen', header.worker)
return redis.call('HDEL', P .. 'workers', header.worker)
