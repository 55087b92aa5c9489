"""Private servers for the tests: a Postgres cluster, a PgBouncer, a proxy that makes trouble; none outlives the run."""
