"""Private servers on a Unix socket in a folder of their own: started, stopped, killed, and gone with this process.

Clients reach them by way of the proxy, so no port is needed that somebody else could take while a server is down.
"""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from tinyjobs.core.clock import Clock
from tinyjobs.core.errors import ConfigurationError
from tinyjobs.operations.verify.faults.programs import postgres_programs, redis_program

_GUARD = Path(__file__).with_name("guard.py")
#: Bounds a hang: a server that has not started or ended by then is broken.
_PATIENCE = 120.0
_LOOKS = 0.02
_PORT = 5432


class Server(ABC):
    """A server that is started when it is made. `socket` is where it listens, `url` where a proxy on a port leads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._user = _unprivileged_user()
        self.folder = Path(tempfile.mkdtemp(prefix="tinyjobs-", dir="/tmp"))
        if self._user is not None:
            os.chown(self.folder, self._user.pw_uid, self._user.pw_gid)
        self._guard: subprocess.Popen[bytes] | None = None
        self._pid = 0
        try:
            self._prepare()
            self.start()
        except BaseException:
            self.close()
            raise

    @property
    @abstractmethod
    def socket(self) -> Path:
        """The path of its socket."""

    @abstractmethod
    def url(self, port: int) -> str:
        """The store's URL by way of a port on loopback."""

    def start(self) -> None:
        """Start it, and wait until it answers."""
        user = self._user
        owner = [str(user.pw_uid), str(user.pw_gid)] if user is not None else ["0", "0"]
        self._guard = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_GUARD), str(self.folder), *owner, *self._command()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._pid = int(_end_of(self._guard.stdout).readline() or 0)
        self._wait(self._is_ready, "did not start")

    def stop(self) -> None:
        """Shut it down as an administrator would."""
        self._end(self._stop_signal)

    def crash(self) -> None:
        """End it as a crash does, and wait until it has gone."""
        self._end(self._crash_signal)

    def close(self) -> None:
        """End it and remove its folder."""
        if self._guard is not None:
            _end_of(self._guard.stdin).close()
            self._guard.wait()
            _end_of(self._guard.stdout).close()
        shutil.rmtree(self.folder, ignore_errors=True)

    _stop_signal: signal.Signals
    _crash_signal: signal.Signals

    @abstractmethod
    def _prepare(self) -> None:
        """Lay out the folder."""

    @abstractmethod
    def _command(self) -> Sequence[str]:
        """How it is started."""

    @abstractmethod
    def _is_ready(self) -> bool:
        """Whether it answers."""

    def _end(self, number: signal.Signals) -> None:
        guard = self._guard
        assert guard is not None
        os.kill(self._pid, number)
        self._wait(lambda: guard.poll() is not None, "did not end")

    def _wait(self, ready: Callable[[], bool], what: str) -> None:
        deadline = self._clock.monotonic() + _PATIENCE
        pause = threading.Event()
        while not ready():
            ended = self._guard is None or (self._guard.poll() is not None and "end" not in what)
            if ended or self._clock.monotonic() > deadline:
                raise ConfigurationError(f"A private server for --faults {what}: {self._log_tail()}")
            pause.wait(_LOOKS)

    def _log_tail(self) -> str:
        try:
            return (self.folder / "log").read_text("utf-8", "replace")[-1_500:].strip() or "it wrote nothing"
        except OSError:
            return "it wrote nothing"

    def _run(self, command: Sequence[str]) -> None:
        """Run a program as the server's user, to its end."""
        user = self._user
        as_user: dict[str, Any] = (
            {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        )
        done = subprocess.run(
            command, cwd=self.folder, capture_output=True, check=False, env={**os.environ, "LC_ALL": "C"}, **as_user
        )
        if done.returncode:
            told = (done.stderr or done.stdout).decode("utf-8", "replace").strip()
            raise ConfigurationError(f"{command[0]} failed: {told[-1_500:]}")


class PostgresServer(Server):
    """A cluster of its own, which anybody on this machine may use while it runs."""

    _stop_signal, _crash_signal = signal.SIGINT, signal.SIGQUIT

    @property
    def socket(self) -> Path:
        """See `Server.socket`."""
        return self.folder / f".s.PGSQL.{_PORT}"

    def url(self, port: int) -> str:
        """See `Server.url`."""
        return f"postgresql://postgres@127.0.0.1:{port}/postgres?sslmode=disable&gssencmode=disable"

    def _prepare(self) -> None:
        self._programs = postgres_programs()
        initdb = [str(self._programs / "initdb"), "--auth=trust", "--username=postgres", "--encoding=UTF8"]
        self._run([*initdb, "--locale=C", "--no-sync", str(self.folder / "data")])

    def _command(self) -> Sequence[str]:
        settings = {"listen_addresses": "", "unix_socket_directories": str(self.folder), "shared_buffers": "64MB"}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return [str(self._programs / "postgres"), "-D", str(self.folder / "data"), "-p", str(_PORT), *options]

    def _is_ready(self) -> bool:
        try:
            lines = (self.folder / "data" / "postmaster.pid").read_text("ascii").splitlines()
        except OSError:
            return False
        return len(lines) > 7 and lines[0] == str(self._pid) and lines[7].strip() == "ready"


class RedisServer(Server):
    """A server of its own that keeps an append-only file."""

    _stop_signal, _crash_signal = signal.SIGTERM, signal.SIGKILL

    @property
    def socket(self) -> Path:
        """See `Server.socket`."""
        return self.folder / "socket"

    def url(self, port: int) -> str:
        """See `Server.url`."""
        return f"redis://127.0.0.1:{port}/0"

    def _prepare(self) -> None:
        self._program = redis_program()

    def _command(self) -> Sequence[str]:
        settings = {
            "port": "0",
            "unixsocket": str(self.socket),
            "dir": str(self.folder),
            "save": "",
            "appendonly": "yes",
        }
        return [str(self._program), *(part for name, value in settings.items() for part in (f"--{name}", value))]

    def _is_ready(self) -> bool:
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(_PATIENCE)
            try:
                line.connect(str(self.socket))
                line.sendall(b"PING\r\n")
                return line.recv(64).startswith(b"+PONG")
            except OSError:
                return False


def _unprivileged_user() -> pwd.struct_passwd | None:
    """Whom to run a server as: as we are, unless that is root, whom Postgres refuses."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise ConfigurationError("--faults runs no server as root, and there is neither a user postgres nor nobody here.")


def _end_of(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe
