-- uses: call
-- Writes the marks of the layout where they are missing, and else nothing, so that a process can begin to work on a
-- server that takes no writes. Answers what stands there, and whether the keys are those of an older package of the
-- same name.
local answer = {}
local is_foreign = redis.call('EXISTS', P .. 'schema_version') == 1 and redis.call('EXISTS', P .. 'meta') == 0
if not is_foreign then
    for _, entry in ipairs(header.meta) do
        if redis.call('HEXISTS', P .. 'meta', entry[1]) == 0 then
            redis.call('HSET', P .. 'meta', entry[1], entry[2])
        end
    end
end
return { is_foreign and 1 or 0, json(redis.call('HGETALL', P .. 'meta')) }
