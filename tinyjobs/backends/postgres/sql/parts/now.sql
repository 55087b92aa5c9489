-- The present: what the caller gives, or else the server's own as this statement began.
-- Whatever runs on a connection of a caller's names functions and types with their schema, or by a keyword, since the
-- search path there may lead elsewhere first. Operators are not named so yet.
coalesce(%s::double precision, pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()))
