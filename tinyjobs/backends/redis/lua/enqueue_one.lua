-- uses: ready
-- Adds a job that is due at once and has nothing that most jobs have not: the call that programs make most, so it takes
-- plain arguments, and no more commands than it must. What a new job's hash has is said once more in `insert`.
local function add(key, score, member)
    redis.call('ZADD', key, score, member)
end

local function count(hash, field, by)
    redis.call('HINCRBY', P .. hash, field, by)
end

local id, now = ARGV[1], ARGV[2]
if redis.call('ZADD', P .. 'index:all', 'NX', 0, id) == 0 then
    return redis.error_reply('REFUSED the id ' .. id .. ' is taken by another job')
end
if now == '' then
    local time = redis.call('TIME')
    now = string.format('%.17g', tonumber(time[1]) + tonumber(time[2]) / 1000000)
end
local job = { id = id, task = ARGV[3], queue = ARGV[4], priority = ARGV[5], run_at = now }
redis.call('HSET', P .. 'job:' .. id, 'task', job.task, 'queue', job.queue, 'priority', job.priority, 'status', 'queued',
    'run_at', now, 'delayed', '', 'max_attempts', ARGV[6], 'created_at', ARGV[7], 'codec', ARGV[8], 'payload', ARGV[9])
stand_ready(job, add, count)
add(P .. 'index:queue:' .. job.queue, 0, id)
tell(job.queue)
return 1
