-- uses: call, rows, keys
-- Adds jobs of which some have keys, all or none: ARGV after the first has their payloads. Answers for each the id that
-- stands for it, its own or that of the job that holds its key, and those holders whole.
local taken = taken_id(header.jobs)
if taken then
    return refuse(taken)
end
local ids, held = {}, {}
for place, given in ipairs(header.jobs) do
    local id = insert_or_find(given, ARGV[place + 1])
    ids[place] = id
    if id ~= given.id then
        held[#held + 1] = id
    end
end
flush()
flush_tallies()
wake()
return answer_whole({ json(ids) }, held)
