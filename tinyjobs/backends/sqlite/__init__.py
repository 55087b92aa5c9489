"""The SQLite store: a file on a local disk, or memory:// for tests. The embedded default."""
