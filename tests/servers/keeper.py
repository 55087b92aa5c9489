"""Holds a server of the tests for as long as a run of them takes, by way of a process of its own.

For `runtests.py`, whose own Python may lack what the servers need: this imports nothing but the standard library.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[2]
#: What the tests are told by, and the keeper too: a server's URL, and where its programs are.
VARIABLES = {
    "postgres": ("TINYJOBS_TEST_POSTGRES", "TINYJOBS_TEST_POSTGRES_PROGRAMS"),
    "redis": ("TINYJOBS_TEST_REDIS", "TINYJOBS_TEST_REDIS_PROGRAM"),
}


class Keeper:
    """The server of a store: the one that a URL names, or a private one of a version or of any.

    Another process keeps it (`python -m tests.servers`) until its standard input ends, be it because we were killed.
    """

    def __init__(
        self, python: str, store: str, *, url: str | None = None, version: str | None = None, program: str | None = None
    ) -> None:
        self._names = VARIABLES[store]
        url_variable, program_variable = self._names
        environment = dict(os.environ)
        if url:
            environment[url_variable] = url
        if program:
            environment[program_variable] = program
        command = [python, "-m", "tests.servers", store]
        if version:
            command += ["--version", version]
        if version or program:
            environment.pop(url_variable, None)
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=pipe, stdout=pipe)
        assert self._process.stdout is not None
        answer = self._process.stdout.readline()
        failed = {"error": f"its keeper, {' '.join(command[1:])}, has failed, see above"}
        self.found: dict[str, Any] = json.loads(answer) if answer else failed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def error(self) -> str | None:
        """Why there is no server."""
        return self.found.get("error")

    @property
    def environment(self) -> dict[str, str]:
        """What the tests are told of the server."""
        known = zip(self._names, (self.found["url"], self.found["program"]), strict=True)
        return {name: value for name, value in known if value}

    def close(self) -> None:
        """Let the keeper end its server, and wait for that."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()
