"""Small edits of Python source text that insist on having found what they were written for.

Knows nothing of Django or of the files it edits. Every edit counts its matches and raises when the count differs from
the one it was given, so an edit can neither miss silently nor hit a place nobody has seen. Text outside an edit stays
as it was, to the byte: tests compare traceback lines with it.
"""

import ast
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass


class PatchDoesNotApply(Exception):
    """The source no longer looks as the edit expects; the message names the edit and what was found."""


@dataclass(frozen=True)
class Edit:
    """One named change of a source text."""

    what: str
    change: Callable[[str], str]

    def __call__(self, source: str) -> str:
        try:
            changed = self.change(source)
        except PatchDoesNotApply as error:
            raise PatchDoesNotApply(f"{self.what}: {error}") from None
        try:
            ast.parse(changed)
        except SyntaxError as error:
            raise PatchDoesNotApply(f"{self.what}: left text that is not Python ({error})") from None
        return changed


def apply(edits: Iterable[Edit], source: str, name: str) -> str:
    """Run the edits in order; `name` is the file that a failing one is reported under."""
    for edit in edits:
        try:
            source = edit(source)
        except PatchDoesNotApply as error:
            raise PatchDoesNotApply(f"{name}: {error}") from None
    return source


def replace(old: str, new: str, *, times: int, inside: str | None = None) -> Edit:
    """Exchange a literal text, found exactly `times` times, in the whole file or inside `Class.method`."""
    return _substitute(re.escape(old), lambda _: new, f"replace {old!r}", times, inside)


def substitute(pattern: str, new: str, *, times: int, inside: str | None = None) -> Edit:
    """Exchange what a regular expression finds, exactly `times` times; `new` may refer to its groups."""
    return _substitute(pattern, lambda match: match.expand(new), f"substitute {pattern!r}", times, inside)


def skip(test: str, reason: str) -> Edit:
    """Mark `Class.method` as skipped; needs `import unittest` in the file (see `add_import`)."""

    def change(source: str) -> str:
        function = _find(source, test)
        first = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
        lines = source.splitlines(keepends=True)
        lines.insert(first - 1, f"{' ' * function.col_offset}@unittest.skip({reason!r})\n")
        return "".join(lines)

    return Edit(f"skip {test}", change)


def add_import(statement: str) -> Edit:
    """Add an import below the imports that open the file."""

    def change(source: str) -> str:
        imports = [node for node in ast.parse(source).body if isinstance(node, ast.Import | ast.ImportFrom)]
        if not imports:
            raise PatchDoesNotApply("the file imports nothing")
        lines = source.splitlines(keepends=True)
        lines.insert(imports[-1].end_lineno or 0, statement + "\n")
        return "".join(lines)

    return Edit(f"add {statement!r}", change)


def wrap_assigned_calls(target: str, method: str, wrapper: str, *, times: int) -> Edit:
    """Turn `target = x.method(...)` into `target = wrapper(x.method(...))`, awaited where the call is awaited."""

    def change(source: str) -> str:
        values = [value for node in ast.walk(ast.parse(source)) if (value := _assigned_call(node, target, method))]
        _count(len(values), times)
        for value in sorted(values, key=lambda value: value.lineno, reverse=True):
            source = _wrap(source, value, f"await {wrapper}(" if isinstance(value, ast.Await) else f"{wrapper}(")
        return source

    return Edit(f"wrap {target} = ….{method}(…) in {wrapper}()", change)


def _substitute(pattern: str, new: Callable[[re.Match[str]], str], what: str, times: int, inside: str | None) -> Edit:
    def change(source: str) -> str:
        start, end = (0, len(source)) if inside is None else _span(source, _find(source, inside))
        changed, found = re.subn(pattern, new, source[start:end], flags=re.MULTILINE)
        _count(found, times)
        return source[:start] + changed + source[end:]

    return Edit(what if inside is None else f"{what} inside {inside}", change)


def _count(found: int, times: int) -> None:
    if found != times:
        raise PatchDoesNotApply(f"found {found} times, expected {times}")


def _find(source: str, path: str) -> ast.FunctionDef | ast.AsyncFunctionDef:
    class_name, _, function_name = path.partition(".")
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef) and node.name == class_name:
            for member in node.body:
                if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef) and member.name == function_name:
                    return member
    raise PatchDoesNotApply(f"there is no {path}")


def _assigned_call(node: ast.AST, target: str, method: str) -> ast.Call | ast.Await | None:
    match node:
        case ast.Assign(
            targets=[ast.Name(id=name)],
            value=(ast.Await(value=ast.Call(func=ast.Attribute(attr=called)))
                   | ast.Call(func=ast.Attribute(attr=called))) as value,
        ) if name == target and called == method:  # fmt: skip
            return value
    return None


def _wrap(source: str, node: ast.Call | ast.Await, opening: str) -> str:
    start, end = _span(source, node)
    return f"{source[:start]}{opening}{source[start:end]}){source[end:]}"


def _span(source: str, node: ast.stmt | ast.expr) -> tuple[int, int]:
    """Where a node stands in the text; ast counts columns in bytes, so lines are measured encoded."""
    lines = source.splitlines(keepends=True)

    def offset(line: int, column: int) -> int:
        return sum(map(len, lines[: line - 1])) + len(lines[line - 1].encode()[:column].decode())

    if node.end_lineno is None or node.end_col_offset is None:
        raise PatchDoesNotApply("the parser gave no end")
    return offset(node.lineno, node.col_offset), offset(node.end_lineno, node.end_col_offset)
