"""What the rows of a table are made of: programs, shapes of work, rivals, and the bar that a row has to reach."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Subject:
    """A program in its environment. `peer` is None for this project's own.

    `scale`: the share of the jobs that this one is given, so that a slow program takes seconds and not minutes; a rate
    does not depend on it.
    """

    title: str
    script: str
    peer: str | None = None
    variant: str = ""
    scale: float = 1.0


FACADE = Subject("tinyjobs, facade", "ours_facade.py")
DJANGO = Subject("tinyjobs, Django tasks", "ours_django.py")


@dataclass(frozen=True, slots=True)
class Work:
    """One shape of work for one subject. `slots` 0 leaves a program to its own best or default."""

    subject: Subject
    shape: str
    kind: str = "coroutine"
    workers: int = 1
    slots: int = 0
    filled: bool = False
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Rival:
    """What a row is held against, and the least ratio that the row must reach; None: told, not judged."""

    work: Work
    bar: float | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table for the work itself, and one for each rival. `limit` is a bar on the figure itself."""

    key: str
    title: str
    work: Work
    rivals: tuple[Rival, ...] = ()
    figure: str = "rate"
    limit: float | None = None
    once: bool = field(default=False)

    @property
    def lower_is_better(self) -> bool:
        return self.figure != "rate"


NO_LOSS = 0.95

# A rival by its subject, what differs from the row's own work, and its bar.
type Other = tuple[Subject, Mapping[str, Any], float | None]


def against(work: Work, *others: Other) -> tuple[Rival, ...]:
    """The same work for others, but for what is said to differ."""
    return tuple(Rival(replace(work, subject=subject, **changed), bar) for subject, changed, bar in others)
