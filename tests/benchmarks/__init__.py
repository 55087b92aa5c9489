"""How fast it is, told by a command: `python -m tests.benchmarks`. No test ever fails for being slow.

`programs/` holds one script for each measured program, the same shapes over all of them; `peers` makes their pinned
environments, `stores` and `databases` the stores. `plan` has the words for what is measured, `rows_sqlite` and
`rows_postgres` say what is measured against what, `pairs` runs it, `table` prints and keeps it.
"""
