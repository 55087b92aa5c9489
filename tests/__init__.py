"""The test suite. `python runtests.py` in the repository's root runs it."""
