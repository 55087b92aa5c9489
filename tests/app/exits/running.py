"""Runs the programs, and says what was wrong with one: a word on stderr, a status, a hang, a damaged file."""

import ast
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).with_name("program.py")


def cases() -> list[str]:
    """Read from the source: to import the program is to run it."""
    return [ast.unparse(name) for name in _value_of("CASES").elts]


def fault(case: str, url: str, path: Path | None = None) -> str | None:
    """Run it once; what was wrong, or None."""
    done = _run([case, url], 90)
    wanted = ast.literal_eval(_value_of("STATUS")).get(case, 0)
    if done.returncode != wanted or done.stderr or done.stdout:
        return f"status {done.returncode}\n{done.stdout}{done.stderr}"
    return None if path is None or not path.exists() else _damage(path)


def faults(case: str, url: str, folder: Path, times: int) -> list[str]:
    """Run it so many times; what was wrong each time that something was."""
    done = _run([case, url, str(times)], 90 * times)
    assert done.returncode == 0, done.stderr
    found = [text for text in done.stdout.split("--- ") if text]
    for path in folder.glob("*.db-*"):
        if path.suffix.removeprefix(".db-").isdigit() and (damage := _damage(path)):
            found.append(damage)
    return found


def _run(arguments: list[str], longest: float) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-X", "dev", "-W", "error", str(PROGRAM), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(PROGRAM.parents[3]), "PYTHONASYNCIODEBUG": "0"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=longest, check=False)


def _damage(path: Path) -> str | None:
    with closing(sqlite3.connect(path)) as raw:
        ((answer,),) = raw.execute("PRAGMA integrity_check")
    return None if answer == "ok" else f"{path.name} is damaged: {answer}"


def _value_of(name: str) -> Any:
    for node in ast.parse(PROGRAM.read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return node.value
    raise LookupError(f"the program has no {name}")
