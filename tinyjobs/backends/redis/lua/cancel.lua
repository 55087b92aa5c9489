-- uses: call, leave, tally
-- Ends a job that has not ended. A running attempt stays in the history as cancelled; its own outcome will be refused.
local job = load(header.id)
if not job or FINAL[job.status] then
    return 0
end
leave(job)
flush_removals()
if job.status == 'running' then
    note_attempt(job, 'cancelled', job.worker_id, job.started_at, now_text, false, false)
end
tally_cancelled(job)
write(job, { status = 'cancelled', finished_at = now_text })
enter(job)
flush()
flush_tallies()
return 1
