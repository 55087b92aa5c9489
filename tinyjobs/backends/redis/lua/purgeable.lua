-- uses: call
-- How many jobs such purges would delete in all.
return redis.call('ZCOUNT', P .. 'finished:' .. header.status, '-inf', exact(now - tonumber(header.older_than)))
