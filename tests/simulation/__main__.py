"""`python -m tests.simulation --seeds 0-1000`, or `--seed 17` for one world with its whole history."""

import argparse
import sys
import time

from tests.simulation.runs import run_world, run_worlds
from tests.simulation.world import at, in_memory


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="one world, and its history")
    parser.add_argument("--seeds", default="0-1000", help="FIRST-LAST, the last one not included")
    parser.add_argument("--url", help="the store, which keeps what the worlds leave there; without it, in memory")
    options = parser.parse_args()
    open_store = at(options.url) if options.url else in_memory
    if options.seed is not None:
        world, fault = run_world(options.seed, open_store)
        print("\n".join(world.book.lines))
        print(f"history {world.digest}")
        if fault is not None:
            print(f"\n{fault}")
        return 1 if fault else 0
    first, _, last = options.seeds.partition("-")
    began = time.process_time()
    seen = run_worlds(range(int(first), int(last)), open_store)
    for fault in seen.faults:
        print(f"{fault}\n")
    told = ", ".join(f"{count} {name}" for name, count in seen.figures.items())
    print(f"{seen.count} worlds in {time.process_time() - began:.1f} s of processor time: {told}")
    return 1 if seen.faults else 0


if __name__ == "__main__":
    sys.exit(main())
