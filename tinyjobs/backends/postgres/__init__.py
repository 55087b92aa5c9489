"""The Postgres store: statements, connections and errors. The verbs are those of every SQL store."""
