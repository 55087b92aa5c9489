"""A thousand worlds keep every guarantee; the same seed is the same world; and a broken store is found out."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.runs import run_world, run_worlds
from tests.simulation.world import at
from tests.teeth.variants import VARIANTS

ROOT = Path(__file__).parents[2]
WORLDS = int(os.environ.get("TINYJOBS_WORLDS", "1000"))
PARTS = 4


@pytest.mark.parametrize("part", range(PARTS))
def test_every_guarantee_holds_in_a_thousand_worlds(part):
    seeds = range(part * WORLDS // PARTS, (part + 1) * WORLDS // PARTS)
    seen = run_worlds(seeds)
    assert not seen.faults, "\n\n".join(map(str, seen.faults))
    assert seen.count == len(seeds)
    # In worlds where nothing goes wrong nothing is shown.
    assert seen.figures["jobs"] > 10 * len(seeds)
    assert seen.figures["lost attempts"] > len(seeds) / 2
    assert seen.figures["refused outcomes"] > 0 and seen.figures["jobs kept from a second start"] > 0
    print(f"{seen.count} worlds: {seen.figures}")


def test_the_same_seed_is_the_same_world():
    """Also in another process, where nothing that depends on the hash of a text comes in the same order."""
    seeds = range(7, 15)
    here = [run_world(seed)[0].digest for seed in seeds]
    program = (
        "from tests.simulation.runs import run_world\n"
        f"print(*(run_world(seed)[0].digest for seed in {seeds}), sep='\\n')"
    )
    for hashes in ("1", "2"):
        run = subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hashes},
            capture_output=True,
            text=True,
            check=True,
        )
        assert run.stdout.split() == here
    assert len(set(here)) == len(here)


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.__name__)
def test_a_broken_store_is_found_out(variant):
    """Within a few worlds; and what is printed says how to see it again."""
    seen = run_worlds(range(200), lambda clock, seed: variant(":memory:", clock=clock))
    (fault,) = seen.faults
    assert f"python -m tests.simulation --seed {fault.seed}" in str(fault)


def test_a_killed_worker_takes_no_further_step():
    """Not even its clean-up: what it held stays as it was until its lease runs out."""
    kills = 0
    for seed in range(8):
        world, _ = run_world(seed)
        lines = [(line[:9], line[10:20].strip(), line[21:]) for line in world.book.lines]
        for place, (_, who, what) in enumerate(lines):
            if who == "world" and what.startswith("kill "):
                kills += 1
                victim = what.removeprefix("kill ")
                assert any(name == victim for _, name, _ in lines[:place])
                assert not any(name == victim for _, name, _ in lines[place:])
    assert kills > 3


def test_a_world_that_is_asked_for_tells_its_history():
    run = subprocess.run(
        [sys.executable, "-m", "tests.simulation", "--seed", "5"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "worker 1.1  starts" in run.stdout or "worker 1.1 starts" in run.stdout
    assert run.stdout.splitlines()[-1] == f"history {run_world(5)[0].digest}"


@pytest.mark.slow
def test_every_guarantee_holds_on_postgres(postgres_url):
    seen = run_worlds(range(12), at(postgres_url))
    assert not seen.faults, "\n\n".join(map(str, seen.faults))


@pytest.mark.slow
def test_every_guarantee_holds_on_redis(redis_url):
    seen = run_worlds(range(20), at(redis_url))
    assert not seen.faults, "\n\n".join(map(str, seen.faults))
