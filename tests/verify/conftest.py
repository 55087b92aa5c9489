"""Runs of `tinyjobs verify` as a process, and a look at the store behind them."""

import json
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cli.processes import DjangoProgram, Program
from tinyjobs.app.facade import TinyJobs

VARIANTS = Path(__file__).with_name("variants")
#: A run of a few seconds in which everything happens that is in a long one.
SHORT = ("--duration", "2.5", "--rate", "40", "--workers", "2", "--kill-every", "1", "--lease", "1")
#: Bounds a hang; a machine that is busy with other tests takes its time.
PATIENCE = 300.0


def until(ready, told=lambda: "waited in vain"):
    """What `ready` answers once it is true; `told` says more if it never is."""
    deadline = time.monotonic() + PATIENCE
    while not (found := ready()):
        assert time.monotonic() < deadline, told()
        time.sleep(0.02)
    return found


@pytest.fixture
def start():
    """Starts processes, and ends those that a test left running."""
    with ExitStack() as stack:
        yield lambda *args, **options: stack.enter_context(Program(*args, **options))


@pytest.fixture
def verify(start, tmp_path):
    """Starts `tinyjobs verify` with these arguments."""

    def begin(*arguments: str, plugins: Path | None = None) -> Program:
        path = f"{Path(__file__).parents[2]}:{plugins}" if plugins else str(Path(__file__).parents[2])
        command = [sys.executable, "-m", "tinyjobs", "verify", *arguments]
        # A verifier that is killed leaves its folder, which then goes with the test's.
        surroundings = {"PYTHONPATH": path, "TMPDIR": str(tmp_path), "TINYJOBS_VERIFY_URL": "memory://left-over"}
        return start(command, tmp_path, environment=surroundings)

    return begin


@pytest.fixture
def project(tmp_path, start) -> DjangoProgram:
    return DjangoProgram(tmp_path, start)


def ends(run: Program) -> int:
    """The exit status. Starting ten processes takes a machine that runs other tests its time."""
    run.process.wait(PATIENCE)
    return run.ends()


def document(program: Program) -> dict:
    """What a run with `--json` printed; progress goes to the other stream, and both arrive here."""
    text = program.output
    assert "\n}" in text, text
    found = json.loads(text[text.index("{\n") : text.rindex("\n}") + 2])
    assert isinstance(found, dict)
    return found


def look(url: str) -> TinyJobs:
    return TinyJobs(url)


def jobs_in(url: str) -> int:
    with TinyJobs(url) as app:
        return sum(app.stats().by_status.values())
