-- uses: call, rows
-- The attempts of a job as JSON texts, and its own row, which has the one under way.
local row = row_of(header.id)
if not row then
    return { '[]' }
end
local answer = { json({ row }) }
for _, entry in ipairs(ask('HVALS', P .. 'executions:' .. header.id) or {}) do
    answer[#answer + 1] = entry
end
return answer
