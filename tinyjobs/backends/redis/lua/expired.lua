-- uses: call, rows, sound
-- Reads the jobs whose lease ended before an instant, the longest expired first. Without one: before now. Their payloads
-- and results are nobody's concern yet.
local before = header.before or now_text
local ids = redis.call('ZRANGEBYSCORE', P .. 'leases', '-inf', '(' .. before, 'LIMIT', 0, tonumber(header.limit))
local rows = {}
for _, id in ipairs(ids) do
    local row = row_of(id)
    if row and row[COLUMN_PLACES.status] == 'running' then
        local job = { claims = '0', hand_backs = '0', attempts = '0' }
        for place, name in ipairs(COLUMNS) do
            job[name] = row[place] or job[name]
        end
        local wrong = spoilt_field(job)
        if wrong then
            set_aside(job, wrong)
        else
            rows[#rows + 1] = row
        end
    else
        remove(P .. 'leases', id)
    end
end
flush()
return { before, json(rows) }
