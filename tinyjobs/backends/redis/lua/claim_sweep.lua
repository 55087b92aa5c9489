-- uses: call
-- Whether the caller is to sweep now: of all who ask within an interval, one is. A mark that lies further ahead than that
-- is nobody's.
local last = redis.call('HGET', P .. 'meta', 'last_purge_at')
if last and math.abs(now - tonumber(last)) < tonumber(header.interval) then
    return 0
end
-- The removal first, for a server whose memory is full: there a sweep is needed most.
redis.call('HDEL', P .. 'meta', 'last_purge_at')
redis.call('HSET', P .. 'meta', 'last_purge_at', now_text)
return 1
