-- uses: call, statuses
-- How many jobs of each status there are.
return status_counts()
