DELETE FROM {prefix}_tallies
WHERE (minute, owner, queue) IN (
    SELECT minute, owner, queue
    {part:folded}
)
