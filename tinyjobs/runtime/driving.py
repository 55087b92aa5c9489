"""Runs a worker in the calling thread, on an event loop of its own: what commands and scripts call."""

import signal

from tinyjobs.runtime.engine import Engine
from tinyjobs.runtime.ownloop import run_to_end
from tinyjobs.runtime.settings import WorkerSettings
from tinyjobs.runtime.signals import StopSignals
from tinyjobs.runtime.worker import Worker, WorkerReport


def run_worker(engine: Engine, settings: WorkerSettings | None = None) -> WorkerReport:
    """Run a worker in this thread; see `drive`."""
    return drive(Worker(engine, settings))


def drive(worker: Worker) -> WorkerReport:
    """Run a worker on an event loop of its own; on the main thread it owns SIGINT and SIGTERM until it returns.

    One that leaves the signals to its caller is stopped by a Ctrl-C all the same, and `KeyboardInterrupt` is raised
    once it has ended; likewise by an exception that a handler of the caller's raises.
    """
    worker.owns_loop = True
    if worker.settings.handle_signals:
        with StopSignals(worker.stop, worker.force):
            return run_to_end(worker.run())
    raised: list[BaseException] = []

    def leave(error: BaseException) -> None:
        raised.append(error)
        worker.stop()

    has_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with StopSignals(worker.stop, worker.force, [signal.SIGINT] if has_default else []) as signals:
        report = run_to_end(worker.run(), leave)
    if raised:
        raise raised[0]
    if signals.presses:
        raise KeyboardInterrupt
    return report
