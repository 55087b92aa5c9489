"""`python -m tests.app.exits --times 100`: every way to end, so many times each; `--url` for another store."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.app.exits.running import cases, faults


def main() -> int:
    """Say for each case how often it was wrong and how long it took; 1 if one was."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--url", help="a store that is there already; a new SQLite file for each run unless given")
    parser.add_argument("cases", nargs="*", default=cases(), metavar="case")
    given = parser.parse_args()
    bad = 0
    for case in given.cases:
        with tempfile.TemporaryDirectory() as folder:
            began = time.monotonic()
            found = faults(case, given.url or f"sqlite:///{folder}/jobs.db", Path(folder), given.times)
            took = time.monotonic() - began
        bad += len(found)
        print(f"{case:30} {len(found):4} of {given.times} wrong, {took / given.times:.2f} s each")
        for text in found[:2]:
            print(text)
        sys.stdout.flush()
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
