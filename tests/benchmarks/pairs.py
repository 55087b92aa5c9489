"""Runs the rows in alternated pairs, ours and the rival in turn, so that a machine that drifts drifts under both.

A run is one program in a process and a folder of its own. It may assume that nothing else is measured meanwhile.
"""

import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.benchmarks.plan import Rival, Row, Subject, Work
from tests.benchmarks.stores import Store

PROGRAMS = Path(__file__).parent / "programs"
ROOT = Path(__file__).parents[2]


class RunFailed(Exception):
    """A program that did not answer with figures; the text is the end of what it printed."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much work one run is given."""

    jobs: int
    bulk: int
    singles: int
    samples: int
    finished: int
    delayed: int
    idle_seconds: float
    delay: float


@dataclass(slots=True)
class Outcome:
    """What one row came to: the figures of its own runs, and for each rival the pairs' figures and ratios."""

    row: Row
    figures: list[float] = field(default_factory=list)
    pairs: dict[Rival, list[tuple[float, float]]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    @property
    def figure(self) -> float | None:
        return statistics.median(self.figures) if self.figures else None

    def ratios(self, rival: Rival) -> list[float]:
        """How many times better than the rival, pair by pair."""
        turned = self.row.lower_is_better
        pairs = [(theirs, own) if turned else (own, theirs) for own, theirs in self.pairs.get(rival, [])]
        return [better / worse if worse else math.inf for better, worse in pairs]


class Runner:
    """Runs works one at a time, each on a fresh store. `python_of` gives a peer's interpreter."""

    def __init__(
        self,
        sizes: Sizes,
        python_of: Callable[[str], Path],
        make_store: Callable[[Path], Store],
        scratch: Path | None = None,
    ) -> None:
        self.sizes = sizes
        self.python_of = python_of
        self.folder = Path(tempfile.mkdtemp(prefix="tinyjobs-benchmark-", dir=scratch))
        self.store = make_store(self.folder)
        self.runs: list[dict[str, Any]] = []
        self._filled: dict[str, dict[str, int]] = {}
        self._once: dict[Work, dict[str, Any]] = {}

    def close(self) -> None:
        self.store.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, work: Work) -> dict[str, Any]:
        """The figures that the program printed, and what was in the store before. Raises `RunFailed`."""
        filled = self._fill(work) if work.filled else None
        flags = ["--prepared"] if filled else []
        answer = self._call(work, work.shape, self.store.fresh(filled), [*flags, *self._flags(work)])
        answer.update(slots=work.slots, variant=work.subject.variant, filled=self._filled.get(filled or "", {}))
        self.runs.append(answer)
        return answer

    def _fill(self, work: Work) -> str:
        """The name of the filled store for this work, made and kept if this is its first run."""
        name = "-".join(("filled", work.subject.script, work.kind, work.subject.variant, str(work.priority)))
        if name not in self._filled:
            sizes = ["--finished", str(self.sizes.finished), "--delayed", str(self.sizes.delayed)]
            flags = ["--kind", work.kind, "--priority", str(work.priority), *_variant(work.subject), *sizes]
            answer = self._call(work, "fill", self.store.fresh(), flags)
            self.store.keep(name)
            self._filled[name] = {key: answer[key] for key in ("finished", "delayed", "priority")}
        return name

    def _call(self, work: Work, shape: str, store: str, flags: list[str]) -> dict[str, Any]:
        folder = self.folder / "run"
        shutil.rmtree(folder, ignore_errors=True)
        command = [str(self._python(work.subject)), str(PROGRAMS / work.subject.script), shape]
        command += ["--folder", str(folder), "--store", store, *flags]
        try:
            done = subprocess.run(
                command, env=_environment(work.subject), capture_output=True, text=True, timeout=900, cwd=PROGRAMS
            )
        except subprocess.TimeoutExpired:
            raise RunFailed(f"{work.subject.title}: no answer in 900 seconds") from None
        if done.returncode or not done.stdout.strip():
            raise RunFailed(f"{work.subject.title}: exit {done.returncode}\n{(done.stdout + done.stderr)[-3000:]}")
        answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
        return answer

    def _python(self, subject: Subject) -> Path:
        return Path(sys.executable) if subject.peer is None else self.python_of(subject.peer)

    def _flags(self, work: Work) -> list[str]:
        sizes, subject = self.sizes, work.subject
        jobs = {
            "drain": max(20, int(sizes.jobs * subject.scale * (0.3 if work.filled and subject.scale < 0.2 else 1))),
            "enqueue": sizes.singles,
            "bulk": sizes.bulk,
            "commits": sizes.singles,
            "latency": sizes.samples,
            "lateness": max(2, sizes.samples // 4),
            "idle": 1,
            "pressure": max(20, sizes.jobs // 2),
        }[work.shape]
        flags = ["--kind", work.kind, "--workers", str(work.workers), "--slots", str(work.slots), "--jobs", str(jobs)]
        if work.shape == "pressure":
            # Long enough for all of them to be sent before they fall due.
            beforehand = ["--finished", str(sizes.finished), "--delayed", str(sizes.delayed)]
            return [*flags, *beforehand, "--delay", str(10 * sizes.delay), *_variant(subject)]
        return [*flags, "--seconds", str(sizes.idle_seconds), "--delay", str(sizes.delay), *_variant(subject)]

    def compare(self, row: Row, pairs: int, tell: Callable[[str], None]) -> Outcome:
        """Own, rival, own, rival, … for each rival. With one pair, all rivals share the row's one own run."""
        outcome = Outcome(row)
        pairs = 1 if row.once else pairs
        own: float | None = None
        for rival in row.rivals:
            for number in range(pairs):
                try:
                    if own is None or pairs > 1:
                        own = self._figure(row, row.work)
                        outcome.figures.append(own)
                    theirs = self._figure(row, rival.work)
                except RunFailed as failure:
                    outcome.failures.append(str(failure))
                    tell(f"{row.key}: FAILED {failure}")
                    break
                outcome.pairs.setdefault(rival, []).append((own, theirs))
                against = f"{own:,.1f} against {rival.work.subject.title} {theirs:,.1f}"
                tell(
                    f"{row.key} pair {number + 1}/{pairs}: {against}, ratio {outcome.ratios(rival)[-1]:.2f}"
                    f"{self._processor_time(pairs)}"
                )
        if not row.rivals:
            for _ in range(pairs):
                try:
                    outcome.figures.append(self._figure(row, row.work))
                except RunFailed as failure:
                    outcome.failures.append(str(failure))
                    tell(f"{row.key}: FAILED {failure}")
                    break
                tell(f"{row.key}: {outcome.figures[-1]:,.1f}")
        return outcome

    def _figure(self, row: Row, work: Work) -> float:
        """Of a run for this row. Rows that are measured once and look at one work share its one run."""
        answer = self._once.get(work) if row.once else None
        if answer is None:
            answer = self.run(work)
            if row.once:
                self._once[work] = answer
        return float(answer[row.figure])

    def _processor_time(self, pairs: int) -> str:
        """Of the last pair's workers, for the line of progress: on a busy machine it tells more than the rates."""
        spent = [run.get("cpu_us_per_job") for run in self.runs[-2:]]
        if pairs == 1 or len(spent) < 2 or not all(spent):
            return ""
        return f" (a core for {spent[0]:.0f} µs a job against {spent[1]:.0f})"


def _variant(subject: Subject) -> list[str]:
    return ["--variant", subject.variant] if subject.variant else []


def _environment(subject: Subject) -> dict[str, str]:
    """Ours sees this repository; a peer must not, since one of them has the same import name."""
    dropped = ("PYTHONPATH", "DJANGO_SETTINGS_MODULE", "PYTHONDEVMODE", "PYTHONASYNCIODEBUG", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if name not in dropped and not name.startswith("BENCH_")}
    if subject.peer is None:
        kept["PYTHONPATH"] = str(ROOT)
    return kept
