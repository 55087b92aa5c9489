"""How fast it is, told by a command: `python -m tests.benchmarks`. No test ever fails for being slow.

`programs/` holds one script for each measured program, the same shapes over all of them; `peers` makes their pinned
environments, `stores`, `databases` and `keyspaces` the stores. `plan` has the words for what is measured, the `rows_`
modules say what is measured against what, one for each store; `pairs` runs it, `table` prints and keeps it.
"""
