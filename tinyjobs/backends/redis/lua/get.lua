-- uses: call, rows
-- Whole jobs by their ids, up to a bounded number of bytes; those that are not there are left out. First, how many of the
-- ids were looked at.
local answer, looked = answer_whole({ 0 }, header.ids, MOST_BYTES)
answer[1] = looked
return answer
