"""`verify`: runs the crash harness on a store that holds no jobs, tells how far it is, and reports.

The store is named in full, by its URL or by whatever else the door that is asked understands.
"""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tinyjobs.cli.console import Console, plain
from tinyjobs.cli.outcome import DONE, FAILED
from tinyjobs.cli.stopping import StopRequest, stop_by_signals
from tinyjobs.cli.stores import FindStore
from tinyjobs.core.clock import Clock, SystemClock
from tinyjobs.core.errors import ConfigurationError
from tinyjobs.operations.verify.bench import Progress
from tinyjobs.operations.verify.harness import Run
from tinyjobs.operations.verify.report import Report
from tinyjobs.operations.verify.settings import VerifySettings
from tinyjobs.operations.verify.store import check_platform

if TYPE_CHECKING:
    from tinyjobs.operations.verify.faults.ordeal import Ordeal

type Options = Mapping[str, Any]

_SETTINGS = ("duration", "rate", "workers", "kill_every", "settle", "lease", "keep")
#: Seconds between two lines of progress where none can be written over.
_BETWEEN_LINES = 5.0


def verify(options: Options, find_store: FindStore, console: Console, *, owns_process: bool) -> int:
    """Do it; the exit status: 0 if nothing was wrong, else 1. Raises `ConfigurationError` before anything runs."""
    check_platform()
    settings = VerifySettings.parse({name: options.get(name) for name in _SETTINGS})
    _check_choice(options)
    stop = StopRequest()
    with stop_by_signals(stop, owns_process=owns_process):
        ticker = Ticker(console, SystemClock(), in_place=owns_process)
        try:
            if options["faults"]:
                stop.status = _on_a_store_of_ours(options, settings, console, stop, ticker)
            else:
                stop.status = _on_a_store_of_theirs(options, settings, find_store, console, stop, ticker)
            return stop.status
        finally:
            ticker.end()


def _check_choice(options: Options) -> None:
    if options["store"] and options["faults"]:
        raise ConfigurationError(
            "verify: a store and --faults were given, and it is one or the other: --faults starts a store of its own."
        )
    if not options["store"] and not options["faults"]:
        raise ConfigurationError(
            "verify: name a store, such as sqlite:///scratch.db, which has no default; or one to start with --faults."
        )
    if options["only"] and not options["faults"]:
        raise ConfigurationError("--only: names faults, and goes with --faults.")
    if options["keep"] and options["faults"]:
        raise ConfigurationError("--keep: a store that --faults starts goes away with all its jobs.")


def _on_a_store_of_theirs(
    options: Options,
    settings: VerifySettings,
    find_store: FindStore,
    console: Console,
    stop: StopRequest,
    ticker: "Ticker",
) -> int:
    url, store_options = find_store(options["store"])
    run = Run(url, settings, options=store_options, pause=stop.wait, tell=ticker.tell)

    def begins() -> None:
        if not options["as_json"]:
            console.say(heading(run.where, run.queue, settings))

    report = run.run(begins)
    ticker.end()
    show(report, console, as_json=options["as_json"])
    return DONE if report.is_ok else FAILED


def _on_a_store_of_ours(
    options: Options, settings: VerifySettings, console: Console, stop: StopRequest, ticker: "Ticker"
) -> int:
    # On demand: it takes more of the system than a run needs.
    from tinyjobs.operations.verify.faults.ordeal import suffer

    ordeal = suffer(options["faults"], settings, options["only"] or (), pause=stop.wait, tell=ticker.tell)
    ticker.end()
    if options["as_json"]:
        console.json(ordeal.document())
    else:
        show_ordeal(ordeal, console)
    return DONE if ordeal.is_ok else FAILED


def heading(where: str, queue: str, settings: VerifySettings) -> str:
    """What is about to be done."""
    return (
        f"{where}: {settings.rate:g} jobs a second for {settings.duration:g} s on queue {queue}, "
        f"{settings.workers} {'worker' if settings.workers == 1 else 'workers'}, one stopped every "
        f"{settings.kill_every:g} s, leases of {settings.lease:g} s"
    )


def show(report: Report, console: Console, *, as_json: bool) -> None:
    """The report on the standard output."""
    if as_json:
        console.json(report.document())
        return
    for line in report.lines():
        console.line(plain(line))


def show_ordeal(ordeal: "Ordeal", console: Console) -> None:
    """The report of `--faults`: the run with stopped workers, a row for each fault, the verdict."""
    if ordeal.report is not None:
        for line in ordeal.report.lines():
            console.line(plain(line))
        console.line()
    names = ("sent", "refused", "repeated", "lost", "doubled", "late", "stuck")
    head = ("FAULT", "SECONDS", *(name.upper() for name in names), "WHAT")
    rows = [(row.name, f"{row.lasted:.1f}", *(getattr(row, name) for name in names), row.what) for row in ordeal.rows]
    console.table(head, rows)
    for name, reason in ordeal.absent.items():
        console.line(f"not tried: {name}: {reason}")
    if ordeal.log_tail:
        console.line("the end of the workers' log:")
        for line in ordeal.log_tail.splitlines():
            console.line(f"  {plain(line)}")
    for reason in ordeal.reasons():
        console.line(plain(f"not ok: {reason}"))
    if ordeal.is_ok:
        console.line(f"ok, but for what was not tried: {', '.join(ordeal.absent)}" if ordeal.absent else "ok")


class Ticker:
    """Progress on the error stream: one line written over again on a terminal, else a line every few seconds."""

    def __init__(self, console: Console, clock: Clock, *, in_place: bool) -> None:
        self._console = console
        self._clock = clock
        self._is_terminal = in_place and sys.stderr is not None and sys.stderr.isatty()
        self._between = 0.2 if self._is_terminal else _BETWEEN_LINES
        self._next = clock.monotonic() + (0.0 if self._is_terminal else _BETWEEN_LINES)
        self._has_written = False

    def tell(self, progress: Progress) -> None:
        """Write how far the run is, if it is time for that."""
        now = self._clock.monotonic()
        if now < self._next or not self._console.verbosity:
            return
        self._next = now + self._between
        line = (
            f"{progress.phase}, {progress.elapsed:.0f} s: {progress.sent:,} sent, {progress.done:,} done, "
            f"workers stopped: {progress.stops:,}"
        )
        if self._is_terminal:
            self._write(f"\r{line}\x1b[K")
            self._has_written = True
        else:
            self._console.warn(line)

    def end(self) -> None:
        """Leave a line that was written over empty."""
        if self._has_written:
            self._has_written = False
            self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except (OSError, ValueError):
            # A terminal that has gone is no reason to end the run.
            self._is_terminal, self._has_written = False, False
