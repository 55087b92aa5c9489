"""What is true of the SQLite store alone: its plans, its costs, its locks, its file."""
