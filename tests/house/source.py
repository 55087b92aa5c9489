"""The package's source as the house tests read it: files, syntax trees, and what each file imports."""

import ast
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "tinyjobs"


@dataclass(frozen=True)
class Source:
    """One module of the package."""

    path: Path
    text: str

    @property
    def tree(self) -> ast.Module:
        return parsed(self.text)

    @property
    def place(self) -> str:
        """The path inside the repository, as a message shows it."""
        return self.path.relative_to(ROOT).as_posix()

    def imports(self) -> Iterator[tuple[int, str]]:
        """Yield line and dotted name of every import, wherever in the file it stands.

        `from a import b` gives both `a` and `a.b`. Calls of `import_module` with a literal name count as well.
        """
        for node in ast.walk(self.tree):
            match node:
                case ast.Import(names=names):
                    yield from ((node.lineno, alias.name) for alias in names)
                case ast.ImportFrom(module=str(module), names=names):
                    yield node.lineno, module
                    yield from ((node.lineno, f"{module}.{alias.name}") for alias in names)
                case ast.Call(
                    func=ast.Name(id="import_module") | ast.Attribute(attr="import_module"), args=[first, *_]
                ):
                    if isinstance(first, ast.Constant) and isinstance(first.value, str):
                        yield node.lineno, first.value


@cache
def parsed(text: str) -> ast.Module:
    return ast.parse(text)


@cache
def modules() -> tuple[Source, ...]:
    """Every Python file of the package."""
    found = tuple(Source(path, path.read_text("utf-8")) for path in sorted(PACKAGE.rglob("*.py")))
    assert found, f"no modules in {PACKAGE}"
    return found


@cache
def tracked_files() -> tuple[Path, ...]:
    """Every file that git keeps here; the test is skipped where this is no clone."""
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("not a git clone, so there is no list of tracked files")
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    return tuple(path for name in listing.stdout.split("\0") if name and (path := ROOT / name).is_file())
