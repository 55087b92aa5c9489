-- Changes nothing, and takes the write lock: a transaction that begins with it never has to turn a read into a write.
DELETE FROM {prefix}_meta WHERE 0
