"""What `tinyjobs verify --faults` does: a run as on any store, and then one fault of the store after the other."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from tinyjobs.core.clock import Clock, SystemClock
from tinyjobs.core.errors import TinyJobsError
from tinyjobs.operations.verify import store
from tinyjobs.operations.verify.bench import Bench, Pause, Tell
from tinyjobs.operations.verify.faults.campaign import LEASE, Campaign, Row
from tinyjobs.operations.verify.faults.places import Fault, chosen, open_place
from tinyjobs.operations.verify.harness import Run
from tinyjobs.operations.verify.report import FORMAT, Report
from tinyjobs.operations.verify.settings import VerifySettings


@dataclass(kw_only=True)
class Ordeal:
    """What came out. `report` is that of the run with stopped workers, None if only named faults were asked for."""

    store: str
    report: Report | None = None
    rows: list[Row] = field(default_factory=list)
    absent: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    log_tail: str = ""

    @property
    def is_ok(self) -> bool:
        """Whether nothing at all was wrong."""
        return not self.reasons()

    def reasons(self) -> list[str]:
        """Each thing that was, in a few words."""
        found = [] if self.report is None else [f"stopped workers: {reason}" for reason in self.report.reasons()]
        found += [f"{row.name}: {', '.join(row.problems)}" for row in self.rows if row.problems]
        return found + self.problems

    def document(self) -> dict[str, Any]:
        """For programs."""
        return {
            "format": FORMAT,
            "ok": self.is_ok,
            "reasons": self.reasons(),
            "store": self.store,
            "stopped_workers": None if self.report is None else self.report.document(),
            "faults": [asdict(row) for row in self.rows],
            "not_tried": self.absent,
            "log_tail": self.log_tail,
        }


def suffer(
    name: str,
    settings: VerifySettings,
    only: Sequence[str],
    *,
    pause: Pause,
    tell: Tell = lambda progress: None,
    clock: Clock | None = None,
) -> Ordeal:
    """Start a store of that kind, and bring all of its faults upon it, or only those named.

    Raises `ConfigurationError` for what this machine has not got, before anything runs.
    """
    store.check_platform()
    clock = clock or SystemClock()
    with open_place(name, clock) as place:
        faults = chosen(place, only)
        ordeal = Ordeal(store=name, absent={} if only else place.absent)
        if not only:
            ordeal.report = Run(place.url, settings, pause=pause, tell=tell, clock=clock).run()
            if ordeal.report.was_cut_short or not ordeal.report.is_cleared:
                return ordeal
        longer = replace(settings, lease=max(settings.lease, LEASE), settle=max(settings.settle, 4 * LEASE))
        with Bench(place.url, {}, longer, clock, pause, tell) as bench:
            store.open_empty(bench.app)
            try:
                _bring(Campaign(bench), bench, faults, ordeal)
            finally:
                bench.stop_workers()
            ends = bench.fleet.ends().problems
            ordeal.problems += ends
            if ends or not (ordeal.is_ok or bench.was_cut_short):
                ordeal.log_tail = bench.fleet.log_tail()
        return ordeal


def _bring(campaign: Campaign, bench: Bench, faults: Sequence[Fault], ordeal: Ordeal) -> None:
    has_run = bench.start_workers()
    for fault in faults if has_run else ():
        if bench.was_cut_short:
            break
        try:
            row = campaign.suffer(fault)
        except TinyJobsError as error:
            # A server that does not come back, or a store that does not answer: it is what this looks for.
            ordeal.problems.append(f"{fault.name}: {error}")
            break
        # The jobs of one that was cut short had no time to end, and some still run: there are no figures of them.
        if not bench.was_cut_short:
            ordeal.rows.append(row)
    if bench.was_cut_short:
        ordeal.problems.append("the run was cut short")
    elif not has_run:
        ordeal.problems.append("no worker ran a job")
