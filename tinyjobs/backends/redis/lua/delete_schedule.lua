-- uses: call
-- Forgets a schedule; whether there was one.
redis.call('ZREM', P .. 'schedules', header.name)
return redis.call('DEL', P .. 'schedule:' .. header.name)
