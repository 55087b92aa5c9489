"""The soak in short, so that it works when somebody needs it; and that it sees what it looks for."""

import pytest

from tests.soak.measures import Size
from tests.soak.run import Report, Row, Settings, Soak

MACHINE = "2 cores"


def make_soak(tmp_path, monkeypatch, lines, sent):
    """A soak whose time is over, with that ledger; jobs were due at the second of their number."""
    settings = Settings(url=f"sqlite:///{tmp_path}/jobs.db", seconds=120.0)
    soak = Soak.__new__(Soak)
    soak.settings, soak.ledger, soak.log = settings, tmp_path / "ledger", tmp_path / "log"
    soak.ledger.write_text("".join(f"{line}\n" for line in lines))
    soak.log.write_text("")
    soak.expected, soak.shaky = dict(sent), set()
    rows = [Row(sent=len(sent)), Row(), Row()]
    soak.report = Report(settings, MACHINE, rows)
    return soak


def test_what_was_never_run_is_lost(tmp_path, monkeypatch):
    soak = make_soak(tmp_path, monkeypatch, ["start 1 1.5", "end 1", "start 2 2.0"], {1: 1.0, 2: 2.0, 3: 3.0})
    soak._reckon(0.0, 30.0)
    assert soak.report.problems == ["2 jobs lost, such as [2, 3]"]
    assert soak.report.rows[0].waited == [0.5, 0.0]


def test_a_firing_that_is_missed_or_doubled(tmp_path, monkeypatch):
    ticks = ["tick 60 a", "tick 60 a", "tick 120 b", "tick 120 c"]
    soak = make_soak(tmp_path, monkeypatch, ticks, {})
    soak._reckon(0.0, 200.0)
    assert soak.report.problems == [
        "the schedule did not fire for [180]",
        "the schedule fired twice for [120]",
    ]


def test_what_grows(tmp_path, monkeypatch):
    soak = make_soak(tmp_path, monkeypatch, [], {})
    soak.report.rows[1].worker = Size(30.0, 10, 5)
    soak.report.rows[2].worker = Size(50.0, 40, 5)
    soak._reckon(0.0, 10.0)
    assert soak.report.problems == [
        "the worker's memory in MB grew from 30 to 50",
        "the worker's descriptors grew from 10 to 40",
    ]
    assert "FAILED" in soak.report.markdown()


def test_what_goes_wrong_in_a_worker(tmp_path, monkeypatch):
    soak = make_soak(tmp_path, monkeypatch, [], {})
    soak.log.write_text("Traceback (most recent call last):\n")
    soak._reckon(0.0, 10.0)
    assert soak.report.problems == [f"the workers' log has 1 tracebacks: see {soak.log}"]


@pytest.mark.slow
def test_a_short_one_passes(tmp_path):
    """In a process of its own, since the app of a soak is one for a process."""
    import subprocess
    import sys

    little = ["--minutes", "0.2", "--kill-every", "2.8", "--purge-every", "5", "--rate", "20"]
    run = subprocess.run(
        [sys.executable, "-m", "tests.soak", *little],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "none lost" in run.stdout
