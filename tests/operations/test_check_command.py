"""`check` on both doors: what it prints, its exit status, and that a store out of reach is a line and no wait."""

import io
import json
import signal
import socket
import time

import pytest
from django.core.management import CommandError, call_command

from tests.cli.conftest import migrated, program, project, start  # noqa: F401 - fixtures
from tests.cli.processes import PATIENCE
from tests.taskbackend.shop import tasks
from tinyjobs.app.facade import TinyJobs
from tinyjobs.core.inline import finish
from tinyjobs.core.job import ClaimRequest
from tinyjobs.core.watching import Finding, WorkerSeen
from tinyjobs.management.target import AliasTarget

WELL = Finding(name="settings", ok=True, message="As it should be.")
BADLY = Finding(name="free_space", ok=False, message="No room.", remedy="Make room.")


@pytest.fixture
def audited(monkeypatch):
    """What the store's audit says; whatever this machine is like."""
    findings = [WELL]

    async def audit(self):
        return list(findings)

    monkeypatch.setattr("tinyjobs.taskbackend.shared.JoinedStore.audit", audit)
    return findings


class Answer:
    """What the command wrote, and its status."""

    def __init__(self, *arguments, **options):
        out, err = io.StringIO(), io.StringIO()
        self.status = 0
        try:
            call_command("tinyjobs", *arguments, stdout=out, stderr=err, **options)
        except SystemExit as ending:
            self.status = ending.code
        except CommandError as error:
            self.status = error.returncode
            err.write(str(error))
        self.out, self.err = out.getvalue(), err.getvalue()

    @property
    def marks(self):
        """Each line's mark and name."""
        return [tuple(line.split(":")[0].split()) for line in self.out.splitlines()]


@pytest.mark.django_db
class TestOnTheTestsOwnConnection:
    pytestmark = pytest.mark.usefixtures("audited")

    def test_all_is_well(self):
        answer = Answer("check")
        assert answer.status == 0
        assert ("ok", "settings") in answer.marks
        assert ("ok", "layout") in answer.marks
        assert "FAIL" not in answer.out

    def test_what_fails_stands_first_with_its_remedy(self, audited):
        audited[:] = [BADLY, WELL]
        answer = Answer("check")
        assert answer.status == 1
        assert answer.out.splitlines()[0] == "FAIL  free_space: No room. Make room."
        assert answer.marks[1] == ("WARN", "workers")

    def test_with_store_warnings_the_rest_decides(self, audited):
        audited[:] = [BADLY]
        answer = Answer("check", "--store-warnings")
        assert answer.status == 0
        assert ("WARN", "free_space") in answer.marks
        tasks.add.enqueue(1, 2)
        assert Answer("check", "--store-warnings", "--max-wait", "0").status == 1

    def test_as_json(self, audited):
        audited[:] = [BADLY]
        answer = Answer("check", "--json")
        told = json.loads(answer.out)
        assert (answer.status, told["ok"]) == (1, False)
        assert told["findings"][0] == {
            "name": "free_space",
            "ok": False,
            "message": "No room.",
            "remedy": "Make room.",
            "is_warning": False,
            "is_unknown": False,
        }

    def test_at_verbosity_0_what_is_in_order_is_left_out(self, audited):
        audited[:] = [BADLY]
        assert {mark for mark, _ in Answer("check", "-v", "0").marks} == {"FAIL", "WARN"}

    def test_a_wait_is_a_length_of_time(self):
        tasks.add.enqueue(1, 2)
        assert Answer("check", "--max-wait", "5min").status == 0
        answer = Answer("check", "--max-wait", "0")
        assert answer.status == 1
        assert answer.marks[0] == ("FAIL", "waiting")
        with pytest.raises(CommandError, match="length of time"):
            call_command("tinyjobs", "check", "--max-wait", "soon")

    def test_a_job_past_its_lease(self):
        tasks.add.enqueue(1, 2)
        store = AliasTarget("default").store
        finish(store.claim(ClaimRequest(worker_id="w", limit=1, lease=-10.0)))
        assert Answer("check").marks[0] == ("FAIL", "leases")

    def test_stats_lists_the_workers(self):
        assert "workers: none is there" in Answer("stats").out
        assert json.loads(Answer("stats", "--json").out)["workers"] == []
        store = AliasTarget("default").store
        for name, queues in (("here:1:a", ("mail", "slow")), ("here:1:b", ())):
            seen = WorkerSeen(
                worker_id=name, host="here", pid=1, version="1", started_at=0.0, queues=queues, threads=8, running=3
            )
            finish(store.beat(seen))
        lines = [line.split() for line in Answer("stats").out.splitlines()]
        (first,) = [line for line in lines if line[:1] == ["here:1:a"]]
        assert first[1:3] == ["mail,slow", "3"]
        assert first[-1] == "there"
        (second,) = [line for line in lines if line[:1] == ["here:1:b"]]
        assert second[1] == "every"
        told = json.loads(Answer("stats", "--json").out)["workers"]
        assert {worker["worker_id"] for worker in told} == {"here:1:a", "here:1:b"}
        assert ("ok", "workers") in Answer("check").marks


def _without_a_disk(output):
    """The findings of a process that runs on whatever disk there is: those of its store aside."""
    return [
        line for line in output.splitlines() if line[6:].split(":")[0] not in ("file_system", "free_space", "settings")
    ]


def test_the_standalone_program(program):  # noqa: F811
    with TinyJobs(program.url):
        pass  # it is there from now on
    status, output = program.run("check", "--store-warnings")
    assert status == 0, output
    assert "ok    tasks: 5 tasks are registered." in output
    assert "WARN  workers: No worker is there; no job waits for one. Start a worker." in output
    program.write("empty.py", "from tinyjobs import TinyJobs\napp = TinyJobs('sqlite:///jobs.db')\n")
    status, output = program.run("check", "--store-warnings", app="empty:app")
    assert status == 1
    assert _without_a_disk(output)[0].startswith("FAIL  tasks: No tasks are registered")


@pytest.fixture
def silent_port():
    """A server that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def nowhere():
    """A port on which nobody listens, and nobody else will."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


SILENT = pytest.param("silent_port", marks=pytest.mark.slow)


@pytest.mark.parametrize("scheme", ["postgresql", "redis"])
@pytest.mark.parametrize("kind", ["nowhere", SILENT])
def test_a_store_out_of_reach_is_one_line(program, request, scheme, kind):  # noqa: F811
    port = request.getfixturevalue(kind)
    url = f"{scheme}://me:s3cr3t@127.0.0.1:{port}/1"
    program.write("away.py", f"from tinyjobs import TinyJobs\napp = TinyJobs({url!r})\n@app.task\ndef t(): pass\n")
    status, output = program.run("check", app="away:app")
    assert status == 1
    (line,) = output.splitlines()
    assert line.startswith("FAIL  store: The store does not answer: ")
    assert "s3cr3t" not in line


@pytest.mark.parametrize("kind", ["nowhere", "silent_port"])
def test_a_database_of_django_out_of_reach_is_one_line(project, request, kind):  # noqa: F811
    port = request.getfixturevalue(kind)
    settings = project.folder / "project.py"
    entry = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "shop",
        "USER": "me",
        "PASSWORD": "s3cr3t",
        "HOST": "127.0.0.1",
        "PORT": str(port),
    }
    settings.write_text(f"{settings.read_text()}\nDATABASES = {{'default': {entry!r}}}\n")
    status, output = project.run("tinyjobs", "check")
    assert status == 1
    (line,) = output.splitlines()
    assert line.startswith("FAIL  store: ")
    assert "s3cr3t" not in line


def test_wrong_settings_are_no_verdict(project):  # noqa: F811
    project.configure(tasks={"default": {"BACKEND": "tinyjobs.TinyJobsBackend", "OPTIONS": {"leese": 3}}})
    status, output = project.run("tinyjobs", "check", "--skip-checks")
    assert status == 2
    assert "leese" in output


def test_a_worker_of_a_project_is_there_until_it_is_stopped(project):  # noqa: F811
    project.lay_out()
    with TinyJobs(f"sqlite:///{project.folder}/db.sqlite3") as app:
        worker = project.start("tinyjobs", "worker", "--queues", "mail")
        worker.wait_for("SIGTERM stops it")
        (seen,) = _until(app.workers)
        assert (seen.pid, seen.queues, seen.is_stopping) == (worker.process.pid, ("mail",), False)
        worker.signal(signal.SIGTERM)
        assert worker.ends() == 0
        assert app.workers() == []


def _until(question):
    ends = time.monotonic() + PATIENCE
    while not (answer := question()):
        assert time.monotonic() < ends
        time.sleep(0.05)
    return answer
