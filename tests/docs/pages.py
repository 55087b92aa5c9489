"""The pages of the documentation and the fenced blocks in them. Reads Markdown, runs nothing."""

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

_FENCE = re.compile(r"^([ ]*)```([\w-]*)[^\n]*\n(.*?)^\1```[ ]*$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# ([\w./-]+\.(?:py|html|txt))(, at the end)?$")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, the line where the text begins, and the file it is to be written to."""

    language: str
    text: str
    line: int
    file: str | None = None
    at_the_end: bool = False


def all_pages() -> list[str]:
    """Every page by its path from the repository's root."""
    return ["README.md", *sorted(path.relative_to(ROOT).as_posix() for path in DOCS.rglob("*.md"))]


def blocks(page: str) -> list[Block]:
    """The blocks of a page in order. A first line such as `# shop/tasks.py` names a file, `, at the end` adds to it."""
    text = (ROOT / page).read_text("utf-8")
    found = []
    for match in _FENCE.finditer(text):
        body = textwrap.dedent(match[3])
        named = _FILE.match(body.partition("\n")[0]) if match[2] == "python" else None
        found.append(
            Block(
                language=match[2],
                text=body,
                line=text.count("\n", 0, match.start(3)) + 1,
                file=named[1] if named else None,
                at_the_end=bool(named and named[2]),
            )
        )
    return found


def tables(page: str) -> dict[str, list[list[str]]]:
    """The rows of each Markdown table of a page, by the heading above it; header and rule are left out."""
    found: dict[str, list[list[str]]] = {}
    heading, rows = "", 0
    for line in (ROOT / page).read_text("utf-8").splitlines():
        if line.startswith("#"):
            heading, rows = line.lstrip("# ").replace("`", ""), 0
        elif line.startswith("|"):
            rows += 1
            if rows > 2:
                cells = re.split(r"(?<!\\)\|", line.strip().strip("|"))
                found.setdefault(heading, []).append([cell.strip() for cell in cells])
        else:
            rows = 0
    return found


def first_codes(rows: list[list[str]]) -> list[str]:
    """What stands in backticks in the first cell of each row."""
    return [match[1] for row in rows if (match := re.match(r"`([^`]+)`", row[0]))]
