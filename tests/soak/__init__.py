"""What is run before a release: a store under steady load for as long as one likes, kills, and what grows meanwhile.

`python -m tests.soak --store sqlite --minutes 10`
"""
