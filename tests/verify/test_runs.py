"""Real runs: on each store, cut short, killed, refused, two at a time, and on a store that goes away."""

import os
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from tests.verify.conftest import PATIENCE, SHORT, document, ends, jobs_in, until
from tinyjobs.app.facade import TinyJobs
from tinyjobs.cli.main import main
from tinyjobs.operations.verify import harness
from tinyjobs.operations.verify.fleet import HOLDER
from tinyjobs.operations.verify.probe import Probe
from tinyjobs.operations.verify.settings import VerifySettings

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals")


def check_run(verify, url):
    run = verify(url, *SHORT, "--json")
    assert ends(run) == 0, run.output
    found = document(run)
    assert found["ok"] and not found["reasons"]
    jobs, workers = found["jobs"], found["workers"]
    # A race for a key that a slow machine draws out may rightly leave two jobs of one number.
    assert 10 <= found["sent"] <= jobs["succeeded"] <= found["sent"] + 3 * found["contested"]
    assert found["contested"] >= 1
    assert workers["killed"] >= 1 and workers["terminated"] >= 1 and workers["suspended"] == 1
    # The suspended worker's job ran twice, and was recorded once.
    assert jobs["ran_more_than_once"] >= 1
    assert 0 < found["latency_seconds"]["p50"] <= found["latency_seconds"]["p95"]
    assert found["clearing"] == "the store is left as it was found"
    assert jobs_in(url) == 0
    with TinyJobs(url) as app:
        assert not app.store.capabilities.workers_seen or not app.workers()


def test_on_sqlite(verify, tmp_path):
    check_run(verify, f"sqlite:///{tmp_path}/scratch.db")


def test_on_postgres(verify, postgres_url):
    check_run(verify, postgres_url)


def test_on_redis(verify, redis_url):
    check_run(verify, redis_url)


def test_ctrl_c_ends_the_run_cleanly_and_its_verdict_says_so(verify, tmp_path):
    url = f"sqlite:///{tmp_path}/scratch.db"
    run = verify(url, "--duration", "600", "--lease", "2")
    run.wait_for("one stopped every 5 s")
    app = TinyJobs(url)
    until(lambda: (tmp_path / "scratch.db").exists() and app.list(status="success").jobs)
    run.signal(signal.SIGINT)
    assert ends(run) == 1
    assert "not ok: the run was cut short" in run.output
    # Which is why jobs were left: no time was over.
    assert "did not settle" not in run.output
    assert "the store is left as it was found" in run.output
    assert jobs_in(url) == 0
    app.close()


def test_workers_end_when_the_verifier_is_killed_even_one_that_is_suspended(verify, tmp_path):
    url = f"sqlite:///{tmp_path}/scratch.db"
    run = verify(url, "--duration", "600", "--lease", "10", "--workers", "1", "--kill-every", "600")
    children = until(lambda: [pid for pid in children_of(run.process.pid) if state_of(pid) == "T"], lambda: run.output)
    children += children_of(run.process.pid)
    run.signal(signal.SIGKILL)
    until(lambda: not any(map(state_of, children)), lambda: {pid: (state_of(pid), command_of(pid)) for pid in children})


def test_a_suspended_process_goes_on_if_the_verifier_dies_before_it_has_heard_of_it():
    nobody_reads, writes = os.pipe()
    os.close(nobody_reads)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as worker:
        command = [sys.executable, "-I", "-S", "-c", HOLDER, str(worker.pid)]
        status = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=writes, check=False).returncode
        state = state_of(worker.pid)
        worker.kill()
    assert status == 0 and state not in ("T", "")
    os.close(writes)


def children_of(pid: int) -> list[int]:
    found = []
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # that thread has ended meanwhile
            found += map(int, thread.read_text().split())
    return found


def worker_commands(verifier: int, own: str) -> list[str]:
    """The commands of its children while a worker is among them; a killed one is not replaced at once."""
    commands = [command for command in map(command_of, children_of(verifier)) if command != own]
    return commands if any("tinyjobs worker" in command for command in commands) else []


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def state_of(pid: int) -> str:
    """The kernel's letter for it; none once it has gone."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""
    return "" if state in "ZX" else state


@pytest.mark.slow
def test_two_runs_at_once_leave_each_other_alone_and_purge_nothing(tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path}/scratch.db"
    both_have_looked, both_have_run = (threading.Barrier(2, timeout=PATIENCE) for _ in range(2))
    look, clear = harness.store.open_empty, harness.store.clear
    monkeypatch.setattr(harness.store, "open_empty", lambda app: (look(app), both_have_looked.wait()))
    monkeypatch.setattr(harness.store, "clear", lambda *args, **keep: (both_have_run.wait(), clear(*args, **keep))[1])
    settings = VerifySettings.parse({"duration": 2.0, "rate": 30.0, "workers": 1, "kill_every": 0.5, "lease": 1.0})
    runs = [harness.Run(url, settings, pause=threading.Event().wait) for _ in range(2)]
    reports = []
    threads = [threading.Thread(target=lambda run=run: reports.append(run.run())) for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [report.reasons() for report in reports] == [[], []]
    kept = sum(sum(report.reckoning.by_status.values()) for report in reports)
    assert jobs_in(url) == kept >= sum(len(report.sent.numbers) for report in reports)
    assert all("other jobs have appeared" in report.clearing for report in reports)


@pytest.mark.slow
def test_a_worker_that_is_suspended_with_a_lock_is_let_go_and_another_one_tried(tmp_path, monkeypatch):
    others_can_write, asked = Probe._others_can_write, []

    def not_at_first(probe: Probe) -> bool:
        asked.append(probe)
        return len(asked) > 1 and others_can_write(probe)

    monkeypatch.setattr(Probe, "_others_can_write", not_at_first)
    given = {"duration": 2.0, "rate": 30.0, "workers": 2, "kill_every": 0.9, "lease": 1.0}
    url = f"sqlite:///{tmp_path}/scratch.db"
    report = harness.Run(url, VerifySettings.parse(given), pause=threading.Event().wait).run()
    assert report.reasons() == []
    assert len(asked) >= 2 and len(report.sent.probes) >= 2


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("memory://",), "is this process's alone"),
        (("sqlite:///:memory:",), "is this process's alone"),
        (("sqlite:///file:x?mode=memory&cache=shared",), "is this process's alone"),
        (("nothing",), "is no store URL"),
        (("redis:/:secret@host",), "'redis:***@host' is no store URL"),
        (("nosuch://x",), "No store is registered for nosuch://"),
        (("redis://:secret@127.0.0.1:1/0",), r"redis://:***@127.0.0.1:1/0 cannot be used"),
        (("sqlite:///x.db", "--settle", "5"), "--settle: 5 s is too short"),
        (("sqlite:///x.db", "--lease", "90", "--settle", "60"), "--settle: 60 s is too short"),
        (("sqlite:///x.db", "--rate", "0"), "--rate: 0.0 is not a number from"),
        ((), "name a store, such as sqlite:///scratch.db"),
        (
            ("redis://:secret@host", "--faults", "redis"),
            "verify: a store and --faults were given, and it is one or the other",
        ),
        (("sqlite:///x.db", "--only", "crash"), "--only: names faults"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_runs(capsys, tmp_path, monkeypatch, arguments, reason):
    monkeypatch.chdir(tmp_path)
    assert main(["verify", *arguments]) == 2
    output = "".join(capsys.readouterr())
    assert reason in output
    assert "Traceback" not in output and "secret" not in output
    assert not list(tmp_path.iterdir())


def test_a_place_without_room_for_the_ledger_is_refused(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    assert main(["verify", f"sqlite:///{tmp_path}/x.db"]) == 2
    output = "".join(capsys.readouterr())
    assert "gone" in output and "set TMPDIR to a folder with room" in output and "Traceback" not in output
    assert not list(tmp_path.iterdir())


def test_a_run_whose_ledger_fails_ends_with_its_reason_and_clears_the_store(tmp_path, capfd):
    url = f"sqlite:///{tmp_path}/scratch.db"
    settings = VerifySettings.parse({"duration": 600.0, "workers": 1, "lease": 1.0})

    def spoil(seconds: float) -> bool:
        ledger = run._bench.ledger
        if run._bench.was_cut_short or not ledger.tokens():
            return threading.Event().wait(seconds)
        with sqlite3.connect(ledger.path, timeout=PATIENCE) as connection:
            connection.executescript("DROP TABLE applied; DROP TABLE told; DROP TABLE runs; DROP TABLE workers")
        return False

    run = harness.Run(url, settings, pause=spoil)
    report = run.run()
    assert any("the ledger" in reason and "no such table" in reason for reason in report.reasons()), report.reasons()
    assert "the jobs could not be read back" in report.reasons()
    assert report.clearing == "the store is left as it was found" and jobs_in(url) == 0
    # Nor does a thread of the run end in a traceback.
    assert "Traceback" not in capfd.readouterr().err


def test_a_store_with_jobs_is_refused(capsys, tmp_path):
    url = f"sqlite:///{tmp_path}/used.db"
    with TinyJobs(url) as app:
        app.send("somebody.elses")
    assert main(["verify", url]) == 2
    printed = "".join(capsys.readouterr())
    assert "used.db holds 1 job. verify runs only where there are none" in printed
    # Nothing is said to begin that does not.
    assert "jobs a second" not in printed
    assert jobs_in(url) == 1


@pytest.mark.slow
def test_the_report_for_people_and_a_store_whose_jobs_are_kept(verify, tmp_path):
    url = f"sqlite:///{tmp_path}/scratch.db"
    run = verify(url, *SHORT, "--keep")
    assert ends(run) == 0, run.output
    kept = jobs_in(url)
    lines = run.output.splitlines()
    told = re.fullmatch(r"sent (.+) jobs: (.+) succeeded, 0 failed, 0 cancelled, 0 unfinished, 0 lost", lines[-6])
    assert told and told[2] == f"{kept:,}" and int(told[1].replace(",", "")) <= kept
    assert f"0 enqueue failures; the run's {kept:,} jobs are kept in queue verify-" in lines[-2]
    assert lines[-1] == "ok"
    again = verify(url, *SHORT)
    assert ends(again) == 2
    assert f"holds {kept:,} jobs. verify runs only where there are none" in again.output
    assert jobs_in(url) == kept


@pytest.mark.slow
def test_a_store_that_goes_away_fails_the_run_with_its_reasons_and_no_password(verify, make_redis):
    server = make_redis(requirepass="top-secret")
    url = server.url(5)
    run = verify(
        url, "--duration", "600", "--rate", "20", "--workers", "1", "--lease", "1", "--settle", "2.5", "--json"
    )
    app = TinyJobs(url)
    until(lambda: app.list(status="success").jobs)
    app.close()
    # The verifier's own command line is the caller's, and for a moment that of a child that is just being started. What
    # it starts is told by its environment.
    own = command_of(run.process.pid)
    assert "top-secret" in own
    commands = until(lambda: worker_commands(run.process.pid, own))
    assert not any("top-secret" in command for command in commands)
    server.kill()
    run.signal(signal.SIGINT)
    assert ends(run) == 1, run.output
    assert "top-secret" not in run.output
    found = document(run)
    assert found["jobs"] is None and found["store"].startswith("redis://:***@")
    assert "the jobs could not be read back" in found["reasons"]
    assert "the store was not cleared" in found["reasons"]
    assert any("the store did not answer throughout" in reason for reason in found["reasons"])


@pytest.mark.slow
@pytest.mark.sqlite
def test_an_alias_of_a_project_is_named_in_full(project):
    status, output = project.run("tinyjobs", "verify", "default", *SHORT)
    assert status == 2 and "Run `manage.py migrate`" in output
    project.migrate()
    status, output = project.run("tinyjobs", "verify", "default", *SHORT)
    assert status == 0, output
    assert output.splitlines()[-1] == "ok"
