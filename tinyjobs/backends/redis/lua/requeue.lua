-- uses: call, rows, keys
-- Puts a failed or cancelled job back, unless its key is taken by now. A job no worker ever took keeps its time, and its
-- expiry if that is still to come; any other is to run whenever its turn comes.
local job = load(header.id)
if not job or not (job.status == 'failed' or job.status == 'cancelled') then
    return 0
end
if job.key ~= '' and holder_of(job.key) then
    return 0
end
local is_untaken = job.claims == '0'
local fields = { attempts = '0', hand_backs = '0', finished_at = '', started_at = '', worker_id = '' }
line_up(fields, is_untaken and job.run_at or now_text)
if job.expires_at ~= '' and not (is_untaken and tonumber(job.expires_at) > now) then
    fields.expires_at = ''
end
leave(job)
remove(P .. 'results:' .. job.task, job.id)
flush_removals()
write(job, fields)
redis.call('HDEL', P .. 'job:' .. job.id, 'result')
if job.key ~= '' then
    redis.call('SET', P .. 'dedup:' .. job.key, job.id)
end
enter(job)
flush()
wake()
return 1
