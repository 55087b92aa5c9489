"""Worlds by their seeds: one or many, and what is told of one that broke a guarantee."""

import gc
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.simulation.book import Broken
from tests.simulation.world import OpenStore, World, in_memory
from tinyjobs.core.status import ExecutionStatus

LOST = ExecutionStatus.LOST


@dataclass(slots=True)
class Fault:
    """A world that broke a guarantee, and how to see it again."""

    seed: int
    error: BaseException
    history: list[str]

    def __str__(self) -> str:
        tail = "\n".join(self.history[-40:])
        kind = "" if isinstance(self.error, Broken) else f"{type(self.error).__name__}: "
        return (
            f"seed {self.seed}: {kind}{self.error}\n--- the end of its history\n{tail}\n"
            f"--- again, with the whole of it: python -m tests.simulation --seed {self.seed}"
        )


@dataclass(slots=True)
class Worlds:
    """What was seen in many worlds together."""

    count: int = 0
    faults: list[Fault] = field(default_factory=list)
    figures: dict[str, int] = field(default_factory=dict)


@contextmanager
def quiet() -> Iterator[None]:
    """The log of thousands of workers in trouble tells nobody anything."""
    logger = logging.getLogger("tinyjobs")
    before, logger.disabled = logger.level, True
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)
        logger.disabled = False


def run_world(seed: int, open_store: OpenStore = in_memory) -> tuple[World, Fault | None]:
    """Run the world of that seed."""
    world = World(seed, open_store)
    fault = None
    with quiet():
        try:
            world.run()
        except Exception as error:
            fault = Fault(seed, error, world.book.lines)
        finally:
            world.close()
    return world, fault


def run_worlds(seeds: range, open_store: OpenStore = in_memory, *, most: int = 1) -> Worlds:
    """Run them all, or until so many were faulty."""
    seen = Worlds()
    for seed in seeds:
        world, fault = run_world(seed, open_store)
        seen.count += 1
        for name, count in {
            "jobs": len(world.book.jobs),
            "runs": sum(world.book.began.values()),
            "lost attempts": sum(list(known.history.values()).count(LOST) for known in world.book.jobs.values()),
            "refused outcomes": world.book.refused,
            "jobs kept from a second start": world.book.existing,
            "firings": sum(map(len, world.book.fired.values())),
        }.items():
            seen.figures[name] = seen.figures.get(name, 0) + count
        if fault is not None:
            seen.faults.append(fault)
            if len(seen.faults) >= most:
                break
        if seed % 50 == 0:
            gc.collect()
    return seen
