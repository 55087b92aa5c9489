"""Real processes of the command line: started, read line by line as they write, signalled, and never left behind."""

import fcntl
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import termios
import threading
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Bounds a hang, nothing else: no test measures time.
PATIENCE = 60.0


class Program:
    """A running process. What it writes, on both streams, is collected in the order in which it arrives."""

    def __init__(self, command, folder: Path, *, terminal: bool = False, environment=None, **options):
        self._changed = threading.Condition()
        self._lines: list[str] = []
        self._read_to = 0
        self._has_ended = False
        env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **(environment or {})}
        env.pop("DJANGO_SETTINGS_MODULE", None)
        if terminal:
            self._ours, theirs = pty.openpty()
            streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
            options |= {"start_new_session": True, "preexec_fn": _take_terminal}
        else:
            self._ours, theirs = os.pipe()
            streams = {"stdin": subprocess.DEVNULL, "stdout": theirs, "stderr": theirs}
        self.process = subprocess.Popen(command, cwd=folder, env=env, **{**streams, **options})
        os.close(theirs)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        # What it started holds the pipe open for as long as it lives; a reloaded child ends when its parent is gone.
        self._reader.join(PATIENCE)
        assert not self._reader.is_alive(), f"something was left running:\n{self.output}"
        os.close(self._ours)

    @property
    def output(self) -> str:
        with self._changed:
            return "\n".join(self._lines)

    def wait_for(self, pattern: str) -> re.Match:
        """The next line, after the last one that was waited for, in which the pattern is found."""
        expected = re.compile(pattern)
        found: list[re.Match] = []

        def arrived() -> bool:
            for place in range(self._read_to, len(self._lines)):
                match = expected.search(self._lines[place])
                if match:
                    self._read_to = place + 1
                    found.append(match)
                    return True
            return self._has_ended

        with self._changed:
            in_time = self._changed.wait_for(arrived, PATIENCE)
        if not found:
            raise AssertionError(f"{'ended' if in_time else 'waited'} without {pattern!r}:\n{self.output}")
        return found[0]

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def press_ctrl_c(self) -> None:
        """As at a keyboard: the terminal sends SIGINT to everyone in the foreground."""
        os.write(self._ours, b"\x03")

    def ends(self) -> int:
        """The exit status, once it has ended and everything it wrote was read."""
        status = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return status

    def _read(self) -> None:
        rest = ""
        while True:
            try:
                data = os.read(self._ours, 65536)
            except OSError:  # a terminal that nobody has open any more
                data = b""
            *lines, rest = (rest + data.decode("utf-8", "replace")).split("\n")
            with self._changed:
                self._lines += [line.rstrip("\r") for line in lines]
                if not data:
                    self._lines += [rest] if rest else []
                    self._has_ended = True
                self._changed.notify_all()
            if not data:
                return


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Gate:
    """Holds a job up: it waits until the test opens the gate. A named pipe, so nobody has to look again and again."""

    def __init__(self, path: Path):
        self.path = path
        os.mkfifo(path)

    def open(self) -> None:
        """Let through who waits; waits for that someone."""
        with self.path.open("w"):
            pass


APP = """
import asyncio, threading
from pathlib import Path
from tinyjobs import TinyJobs

app = TinyJobs("sqlite:///jobs.db")

@app.task
def note(text):
    with open("ran.txt", "a") as file:
        file.write(text + "\\n")
    return text

@app.task
def hold(gate):
    print("began", flush=True)
    Path(gate).read_text()
    return "held"

@app.task(max_attempts=2)
def hold_once(marker):
    if not Path(marker).exists():
        Path(marker).touch()
        print("began", flush=True)
        threading.Event().wait()
    return "second"

@app.task
async def wait_for_ever():
    print("began", flush=True)
    await asyncio.Event().wait()

@app.task(queue="mail")
def fail(text):
    raise ValueError(text)
"""


class StandaloneProgram:
    """A folder with a program that has a TinyJobs app, and the command line on it."""

    def __init__(self, folder: Path, start: Callable[..., Program]):
        self.folder = folder
        self._start = start
        self.write("work.py", APP)

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    @property
    def url(self) -> str:
        return f"sqlite:///{self.folder}/jobs.db"

    def start(self, *arguments: str, app: str = "work:app", **options) -> Program:
        return self._start([sys.executable, "-m", "tinyjobs", *arguments, "--app", app], self.folder, **options)

    def run(self, *arguments: str, **options) -> tuple[int, str]:
        program = self.start(*arguments, **options)
        return program.ends(), program.output


PROJECT = """
from pathlib import Path
SECRET_KEY = "for a test"
USE_TZ = True
DEBUG = {debug}
INSTALLED_APPS = ["tinyjobs", "shop", "broken"]
DATABASES = {{"default": {{
    "ENGINE": "django.db.backends.sqlite3",
    "NAME": Path(__file__).parent / "db.sqlite3",
    "OPTIONS": {options!r},
}}}}
TASKS = {tasks!r}
"""
MANAGE = """
import os, sys
from django.core.management import execute_from_command_line
os.environ["DJANGO_SETTINGS_MODULE"] = "project"
execute_from_command_line(sys.argv)
"""
TASKS = """
from pathlib import Path
from tinyjobs import task

@task
def note(text):
    with (Path(__file__).parents[1] / "ran.txt").open("a") as file:
        file.write(text + "\\n")

@task(queue_name="mail")
def mail(to):
    pass

@task
def hold(gate):
    print("began", flush=True)
    Path(gate).read_text()
"""


class DjangoProgram:
    """A folder with a Django project, and its `manage.py`."""

    def __init__(self, folder: Path, start: Callable[..., Program], migrated: Path | None = None):
        self.folder = folder
        self._start = start
        self._migrated = migrated
        for name in ("shop/__init__.py", "broken/__init__.py"):
            self.write(name, "")
        self.write("manage.py", MANAGE)
        self.write("shop/tasks.py", TASKS)
        self.configure()

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def configure(self, *, debug=False, options=None, tasks=None) -> None:
        given = {"transaction_mode": "IMMEDIATE"} if options is None else options
        tasks = tasks or {"default": {"BACKEND": "tinyjobs.TinyJobsBackend", "QUEUES": []}}
        self.write("project.py", PROJECT.format(debug=debug, options=given, tasks=tasks))

    def start(self, *arguments: str, **options) -> Program:
        return self._start([sys.executable, "manage.py", *arguments], self.folder, **options)

    def run(self, *arguments: str, **options) -> tuple[int, str]:
        program = self.start(*arguments, **options)
        return program.ends(), program.output

    def lay_out(self) -> None:
        """As after `migrate`, which was run once for all tests."""
        shutil.copy(self._migrated, self.folder / "db.sqlite3")

    def migrate(self) -> None:
        status, output = self.run("migrate", "--skip-checks", "-v0")
        assert status == 0, output

    def send(self, code: str) -> None:
        status, output = self.run("shell", "-v0", "-c", f"import shop.tasks as tasks\n{code}")
        assert status == 0, output
