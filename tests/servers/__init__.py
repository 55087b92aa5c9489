"""Private servers for the tests: Postgres, PgBouncer, Redis, a proxy that makes trouble; none outlives the run."""
