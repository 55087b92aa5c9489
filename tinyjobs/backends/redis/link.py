"""The seam between the store's verbs and its connections: a script, and whatever can run one.

Knows neither the driver nor where a connection comes from.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Protocol

PACKAGE = "tinyjobs.backends.redis"
_USES = re.compile(r"--\s*uses:\s*(.+)")
_PART_NAME = re.compile(r"\w+")

#: What a command may be made of.
type Word = str | bytes | int | float


@dataclass(frozen=True, slots=True)
class Script:
    """One script: the name it has here, its text, and the hash by which a server knows it."""

    name: str
    text: str
    sha: str

    @classmethod
    def of(cls, name: str, text: str) -> "Script":
        """The script with that text."""
        return cls(name, text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


@cache
def load_script(name: str, package: str = PACKAGE) -> Script:
    """The script `lua/<name>.lua`, with the parts that it uses in front of it, each once.

    A line `-- uses: a, b` names files of `lua/parts/`, which may name others.
    """
    parts: dict[str, str] = {}
    text = _read(package, f"{name}.lua")
    _collect(package, text, parts, (name,))
    return Script.of(name, "\n".join((*parts.values(), _bare(text))))


class Link(Protocol):
    """A way to the server. Answers are bytes, integers, lists and None; errors are of the `StoreError` family."""

    async def run(self, script: Script, keys: Sequence[str], arguments: Sequence[Word]) -> Any:
        """Run the script, also on a server that has not seen it yet. It is sent once: a lost answer is an error.

        Raises `StoreUnavailableError` when the server cannot be reached or the answer was lost, and `StoreBusyError`
        when no connection came free in time.
        """
        ...

    async def command(self, *words: Word) -> Any:
        """Send one plain command, once. Raises as `run` does."""
        ...

    async def close(self) -> None:
        """Let go of every connection. Calls from then on fail."""
        ...


def _collect(package: str, text: str, parts: dict[str, str], way: tuple[str, ...]) -> None:
    for line in text.splitlines():
        found = _USES.fullmatch(line.strip())
        for part in _PART_NAME.findall(found[1]) if found else ():
            if part in way:
                raise ValueError(f"Lua parts use each other in a circle: {' -> '.join((*way, part))}")
            if part not in parts:
                inner = _read(package, f"parts/{part}.lua")
                _collect(package, inner, parts, (*way, part))
                parts[part] = _bare(inner)


def _read(package: str, name: str) -> str:
    return files(package).joinpath("lua", *name.split("/")).read_text(encoding="utf-8")


def _bare(text: str) -> str:
    """Without the lines that are comments, which every server would have to keep."""
    kept = [line.rstrip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("--")]
    return "\n".join(kept)
