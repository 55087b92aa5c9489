"""A simulated world: real workers over a real store, in virtual time, with everything that can go wrong drawn by seed.

`python -m tests.simulation --seed 17` runs one world again, exactly as it was, and tells its history.
"""
