"""How arguments and results become bytes and come back.

`base` says what a codec is, `tagged` is the JSON one with its `kinds` and what a program registered (`registered`),
`pickled` the gated other one, and `registry` finds a codec by the name a job's row keeps.
"""
