"""What every private server needs: a folder, a port, a user that is not root, and an end whatever happens to us.

A server is a child of the process that starts it. Beside it runs a guard (`guard.py`), which ends it and removes its
folder when that process is gone.
"""

import atexit
import os
import pwd
import random
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

#: Bounds a hang, nothing else: a server that has not started or ended by then is broken.
PATIENCE = 60.0
GUARD = Path(__file__).with_name("guard.py")
MEMORY = Path("/dev/shm")
ENOUGH_MEMORY = 4 * 1024**3
# A socket's path has to fit into 107 bytes.
LONGEST_FOLDER = 80
# Below what the kernel hands out to clients: one that keeps trying a port nobody listens on could meet itself there.
PORTS = range(20_000, 32_000)


class ServerError(Exception):
    """A server did not start, or did not do what it was told to."""


class MissingProgramError(ServerError):
    """A program is not installed. The text says how to get it."""


def free_port() -> int:
    """A port on 127.0.0.1 that nobody listens on just now, and that no client is given by chance."""
    for port in random.SystemRandom().sample(PORTS, 200):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise ServerError(f"no free port found between {PORTS.start} and {PORTS.stop}")


def unprivileged_user() -> pwd.struct_passwd | None:
    """Whom to run servers as: nobody else unless we are root, whom Postgres refuses."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise ServerError("Postgres refuses to run as root, and this machine has neither a user postgres nor nobody")


def can_be_reached_by_all(path: Path) -> bool:
    """Whether every folder on the way, and the last one, may be entered by anybody."""
    return all(folder.stat().st_mode & stat.S_IXOTH for folder in (path, *path.parents))


def make_folder(prefix: str, *, in_memory: bool = False) -> Path:
    """A temporary folder of the user that servers run as, with room for a socket's name behind it.

    In memory where that is asked for and there is much of it: making and dropping databases is mostly making and
    dropping files, which a disk that is busy for others does thirty times more slowly.
    """
    user = unprivileged_user()
    places = [Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")]
    if in_memory and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= ENOUGH_MEMORY:
        places.insert(0, MEMORY)
    for place in places:
        fits = len(str(place)) + len(prefix) < LONGEST_FOLDER
        if place.is_dir() and fits and (user is None or can_be_reached_by_all(place)):
            folder = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
            if user is not None:
                os.chown(folder, user.pw_uid, user.pw_gid)
            return folder
    raise ServerError(f"no temporary folder that {user.pw_name if user else 'we'} could use")


_open: "set[ServerProcess]" = set()


class ServerProcess:
    """A folder that goes away with the process that made it, and in it one server, startable again and again."""

    def __init__(self, prefix: str, *, in_memory: bool = False) -> None:
        self.folder = make_folder(prefix, in_memory=in_memory)
        self.log = self.folder / "log"
        self._launched_at = 0
        self._owner = os.getpid()
        self._process: subprocess.Popen[bytes] | None = None
        self._guard = subprocess.Popen(
            [sys.executable, "-I", "-S", str(GUARD), str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )
        _open.add(self)

    @property
    def pid(self) -> int:
        if self._process is None:
            raise ServerError("the server is not running")
        return self._process.pid

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def own(self, path: Path) -> None:
        """Let the server's user read a file that we have written, and nobody else."""
        path.chmod(0o600)
        user = unprivileged_user()
        if user is not None:
            os.chown(path, user.pw_uid, user.pw_gid)

    def run(self, command: Sequence[str | Path], *, environment: Mapping[str, str] | None = None) -> None:
        """Run a program in the folder as the server's user, to its end. Raises `ServerError` with what it wrote."""
        done = subprocess.run(
            [*map(str, command)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            **self._surroundings(environment),
        )
        if done.returncode:
            output = done.stdout.decode("utf-8", "replace")
            raise ServerError(f"{Path(command[0]).name} failed ({done.returncode}):\n{output}")

    def launch(self, command: Sequence[str | Path], *, environment: Mapping[str, str] | None = None) -> None:
        """Start the server; what it writes goes to the log. The caller waits until it is ready."""
        assert not self.is_running(), "started twice"
        with self.log.open("ab") as log:
            self._launched_at = log.tell()
            self._process = subprocess.Popen(
                [*map(str, command)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a Ctrl-C in the terminal is for the tests
                **self._surroundings(environment),
            )
        self._tell_guard(self._process.pid)

    def wait_until(self, ready: Callable[[], bool], what: str) -> None:
        """Poll until it is so. Raises `ServerError` with the log's end when the server ends first or never does it."""
        deadline = time.monotonic() + PATIENCE
        while not ready():
            if not self.is_running():
                raise ServerError(f"{what}: the server ended\n{self.log_tail()}")
            if time.monotonic() > deadline:
                raise ServerError(f"{what}: not within {PATIENCE:.0f} s\n{self.log_tail()}")
            time.sleep(0.005)

    def send(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    def end(self, number: signal.Signals) -> None:
        """Send a signal and wait for the end; one that takes too long is killed, and that is an error."""
        if self._process is None:
            return
        self._process.send_signal(number)
        self._process.send_signal(signal.SIGCONT)  # it may have been paused
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise ServerError(f"the server did not end on {number.name}\n{self.log_tail()}") from None
        finally:
            self._process = None
            self._tell_guard(0)

    def close(self) -> None:
        """End the server at once and remove its folder. Harmless when it is closed already."""
        if os.getpid() != self._owner:  # a forked child holds a copy
            return
        _open.discard(self)
        try:
            self.end(signal.SIGQUIT)
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)
            if self._guard.stdin is not None:
                self._guard.stdin.close()
            self._guard.wait()

    def written(self) -> str:
        """What the server has written since it was launched last."""
        try:
            return self.log.read_bytes()[self._launched_at :].decode("utf-8", "replace")
        except OSError:
            return ""

    def log_tail(self) -> str:
        return self.written()[-3000:] or "(nothing in its log)"

    def _tell_guard(self, pid: int) -> None:
        assert self._guard.stdin is not None
        self._guard.stdin.write(b"%d\n" % pid)
        self._guard.stdin.flush()

    def _surroundings(self, environment: Mapping[str, str] | None) -> dict[str, Any]:
        # Nothing that would send a program of Postgres elsewhere, or make it speak another language.
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_", "LANG"))}
        surroundings: dict[str, Any] = {"cwd": self.folder, "env": kept | {"LC_ALL": "C"} | dict(environment or {})}
        user = unprivileged_user()
        if user is not None:
            surroundings |= {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        return surroundings


@cache
def reachable(tree: Path) -> Path:
    """A folder that the server's user can run programs from: this one, or a copy if it is root's alone."""
    if unprivileged_user() is None or can_be_reached_by_all(tree):
        return tree
    copy = ServerProcess("tinyjobs-programs-").folder / tree.name
    return Path(shutil.copytree(tree, copy, symlinks=True))


@atexit.register
def _close_all() -> None:
    for server in list(_open):
        server.close()
