-- How many jobs of each status there are, as the sets that hold them tell.
local function status_counts()
    return json({
        { 'queued', redis.call('ZCARD', P .. 'index:status:queued') },
        { 'running', redis.call('ZCARD', P .. 'leases') },
        { 'success', redis.call('ZCARD', P .. 'finished:success') },
        { 'failed', redis.call('ZCARD', P .. 'finished:failed') },
        { 'cancelled', redis.call('ZCARD', P .. 'finished:cancelled') },
    })
end
