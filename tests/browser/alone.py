"""A shop without Django whose dashboard stands alone: real servers on the loopback, and the store that they show.

`command` is `tinyjobs dashboard`. The others have the same pages as an application: mounted below a prefix, or behind a
proxy that has taken the prefix off and a server that is told so.
"""

import sqlite3
import sys
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Self

from tests.cli.processes import Program
from tinyjobs import TinyJobs
from tinyjobs.backends.base import Backend
from tinyjobs.backends.registry import open_backend
from tinyjobs.core.clock import Clock, SystemClock
from tinyjobs.core.inline import finish
from tinyjobs.core.job import ScheduleState

PREFIX = "/ops/jobs"
#: The name by which others ask for it, which every server here is told.
NAME = "jobs.example.com"
FILES = {
    "shop.py": """\
from tinyjobs import TinyJobs

app = TinyJobs("sqlite:///jobs.db")


@app.task(name="shop.add")
def add(one=1, two=2):
    return one + two


@app.task(name="shop.fail")
def fail(text="on purpose"):
    raise ValueError(text)
""",
    "mounted.py": f"""\
from starlette.applications import Starlette
from starlette.routing import Mount

from shop import app
from tinyjobs.dashboard import asgi

web = Starlette(routes=[Mount("{PREFIX}", asgi(app, hosts=["{NAME}"]))])
""",
    "behind.py": f"""\
from shop import app
from tinyjobs.dashboard import asgi

web = asgi(app, hosts=["{NAME}"])
""",
    "standard.py": f"""\
import sys
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from shop import app
from tinyjobs.dashboard import wsgi

prefix = sys.argv[1]
dashboard = wsgi(app, hosts=["{NAME}"])


def web(environ, start_response):
    path = environ["PATH_INFO"]
    if not path.startswith(prefix):
        start_response("404 Not Found", [])
        return []
    environ["SCRIPT_NAME"], environ["PATH_INFO"] = prefix, path.removeprefix(prefix)
    return dashboard(environ, start_response)


class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


with make_server("127.0.0.1", 0, web, Server) as server:
    print(f"running on http://127.0.0.1:{{server.server_port}}", flush=True)
    server.serve_forever()
""",
}
#: How each server is started, and below what its pages are.
KINDS = {
    "command": (("-m", "tinyjobs", "dashboard", "--app", "shop:app", "--port", "0"), ""),
    "uvicorn": (("-m", "uvicorn", "mounted:web", "--port", "0"), PREFIX),
    "wsgiref": (("standard.py", PREFIX), PREFIX),
    "uvicorn at the root": (("-m", "uvicorn", "behind:web", "--port", "0"), ""),
    "wsgiref at the root": (("standard.py", ""), ""),
    "behind": (("-m", "uvicorn", "behind:web", "--port", "0", "--root-path", PREFIX), ""),
}


class Shop:
    """The folder with those programs, their servers, which end with it, and the store."""

    def __init__(self, folder: Path) -> None:
        for name, text in FILES.items():
            (folder / name).write_text(text)
        self._folder = folder
        self._running: dict[str, str] = {}
        self._stack = ExitStack()
        self._path = folder / "jobs.db"
        self.app = TinyJobs(f"sqlite:///{self._path}")
        self.app.task(name="shop.add")(lambda one=1, two=2: one + two)
        self.app.task(name="shop.fail")(_fail)
        self.app.setup()
        self.store = self.store_at(SystemClock())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()
        self.app.close()

    def store_at(self, clock: Clock) -> Backend:
        """The store for calls in this thread, with its own idea of the time."""
        opened = open_backend(f"sqlite:///{self._path}", clock=clock)
        self._stack.callback(lambda: finish(opened.inline().close()))
        return opened.inline()

    def empty(self) -> None:
        """Leave nothing in the store."""
        with closing(sqlite3.connect(self._path, autocommit=True, timeout=60)) as connection:
            for table in ("jobs", "executions", "schedules", "workers", "tallies"):
                connection.execute(f"DELETE FROM tinyjobs_{table}")

    def site(self, kind: str) -> str:
        """Where a server's pages are, without a slash at the end. It is started by whoever asks first."""
        if kind not in self._running:
            self._running[kind] = self.start(kind, ("--allowed-host", NAME) if kind == "command" else ())
        return self._running[kind]

    def start(self, kind: str, flags: Sequence[str] = ()) -> str:
        """Start one more; where its pages are."""
        command, prefix = KINDS[kind]
        program = Program([sys.executable, *command, *flags], self._folder)
        self._stack.enter_context(program)
        # The port is the last thing of the address that each of them tells.
        return program.wait_for(r"(http://127\.0\.0\.1:\d+)")[1] + prefix

    def schedule(self, name: str) -> ScheduleState | None:
        """The schedule of that name, as it is kept."""
        return next((state for state in finish(self.store.schedules()) if state.name == name), None)


def _fail(text: str = "on purpose") -> None:
    raise ValueError(text)
