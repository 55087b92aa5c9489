-- The present: what the caller gives, or else the server's own as this statement began.
coalesce(%s::float8, date_part('epoch', statement_timestamp()))
