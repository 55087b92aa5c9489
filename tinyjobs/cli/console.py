"""What a command prints: lines, warnings, tables and JSON, on streams that may break at any moment.

Output is never worth a job: a closed pipe or a character the terminal cannot show is survived in silence. That a line
could not be written is remembered, for commands whose whole purpose is to tell it. Text that comes out of a store is
shown with its control characters spelled out, so that it cannot steer a terminal.
"""

import json
import os
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, TextIO

type Write = Callable[[str], object]
type Style = Callable[[str], str]


def _as_it_is(text: str) -> str:
    return text


class Console:
    """Where a command writes. `verbosity` is 0 for errors and warnings alone, 1 as usual, 2 for more, 3 for most."""

    def __init__(
        self,
        out: Write,
        err: Write,
        *,
        verbosity: int = 1,
        warning: Style = _as_it_is,
        heading: Style = _as_it_is,
        streams: tuple[TextIO | None, TextIO | None] = (None, None),
    ) -> None:
        self._out = out
        self._err = err
        #: What the two write to, where it is known.
        self.streams = streams
        self._warning = warning
        self._heading = heading
        self.verbosity = verbosity
        #: The first error that kept a line from being written. That nobody reads any more is none.
        self.lost: OSError | None = None

    def writing_to(self, out: Write | None, err: Write | None) -> "Console":
        """The same, with other places to write to where they are given."""
        return Console(
            out or self._out,
            err or self._err,
            verbosity=self.verbosity,
            warning=self._warning,
            heading=self._heading,
            streams=self.streams,
        )

    def line(self, text: str = "") -> None:
        """A line of what was asked for."""
        error = _write(self._out, text)
        self.lost = self.lost or error

    def say(self, text: str) -> None:
        """A line that is good to know, and left out at verbosity 0."""
        if self.verbosity > 0:
            self.line(text)

    def warn(self, text: str) -> None:
        """A line on the error stream."""
        _write(self._err, self._warning(text))

    def table(self, head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Columns under their heads; numbers stand to the right."""
        texts = [[plain(cell) for cell in row] for row in rows]
        widths = [max(len(cell) for cell in column) for column in zip(head, *texts, strict=True)]
        right = [bool(rows) and all(isinstance(row[place], int) for row in rows) for place in range(len(head))]

        def aligned(cells: Sequence[str]) -> str:
            pairs = zip(cells, widths, right, strict=True)
            return "  ".join(cell.rjust(width) if to_right else cell.ljust(width) for cell, width, to_right in pairs)

        self.line(self._heading(aligned(head).rstrip()))
        for cells in texts:
            self.line(aligned(cells).rstrip())

    def json(self, value: object) -> None:
        """The value as JSON, in ASCII, so that it arrives whole wherever it is sent."""
        self.line(json.dumps(value, indent=2, default=repr))


def process_console(verbosity: int) -> Console:
    """The console of a process of our own, on its standard streams."""
    streams = (sys.stdout, sys.stderr)
    return Console(_line_on(sys.stdout), _line_on(sys.stderr), verbosity=verbosity, streams=streams)


def plain(value: object) -> str:
    """The value in one line without control characters; None is a dash."""
    if value is None:
        return "-"
    text = str(value)
    return text if text.isprintable() else "".join(map(_spelled_out, text))


def shortened(text: str, limit: int) -> str:
    """The text, or its beginning and how much there is of it."""
    return text if len(text) <= limit else f"{text[:limit]}... ({len(text)} characters, --json shows all)"


def plain_lines(text: str) -> list[str]:
    """Text of several lines, each without control characters."""
    return [plain(line.expandtabs()) for line in text.splitlines()]


def shown_time(instant: float | None) -> str | None:
    """An instant in unix seconds as people read it, in UTC."""
    if instant is None:
        return None
    try:
        return f"{datetime.fromtimestamp(instant, UTC):%Y-%m-%d %H:%M:%SZ}"
    except (OverflowError, ValueError, OSError):
        return f"{instant!r} s after 1970"  # a row that somebody edited


def shown_seconds(seconds: float) -> str:
    """A length of time, as rough as people need it."""
    seconds = max(seconds, 0.0)
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"


def settle_streams() -> None:
    """Before a process ends: what cannot be flushed is dropped, so that the exit status stays what it is."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            _drop(stream)


def occupy_standard_streams() -> None:
    """Put something behind the descriptors 0 to 2 where the caller closed them, or a database file would get one."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number


def _drop(stream: TextIO) -> None:
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        pass


def _line_on(stream: TextIO | None) -> Write:
    def write(text: str) -> None:
        if stream is not None:
            stream.write(text + "\n")
            stream.flush()

    return write


def _write(write: Write, text: str) -> OSError | None:
    """Write the line; what kept it from a reader who may still be there."""
    try:
        try:
            write(text)
        except UnicodeEncodeError:
            write(text.encode("ascii", "backslashreplace").decode())
    except (ConnectionError, ValueError, AttributeError):
        # AttributeError: a process that was started with the stream closed has None in its place.
        return None
    except OSError as error:
        return error
    return None


def _spelled_out(character: str) -> str:
    return character if character.isprintable() else ascii(character)[1:-1]


def jsonable(value: Any) -> object:
    """The value where JSON has a word for it, else how Python writes it."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return repr(value)
    return value
