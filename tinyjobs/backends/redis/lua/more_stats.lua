-- uses: call, overdue
-- The rest of the delayed jobs that had come due when the figures were told, from a place on.
local counted, oldest, next_place = overdue(tonumber(header.place), tonumber(header.until_then))
return { told(counted), told(oldest), tostring(next_place) }
