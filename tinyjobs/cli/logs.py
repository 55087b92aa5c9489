"""The log of a command: on the error stream, as long as the program has set up no logging of its own.

It is there before the program's modules are imported, so that nothing is missed, and gives way when those turn out to
set up logging themselves. `--log-format` says how lines look.
"""

import logging
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Self, TextIO

from tinyjobs.cli.console import Console
from tinyjobs.cli.sink import PATIENCE, LineSink, sink_on
from tinyjobs.operations.logs import JSONFormatter, TextFormatter

_LEVELS = {0: logging.WARNING, 1: logging.INFO}


class CommandLog:
    """While the block runs, records of `tinyjobs` are written to stderr; at verbosity 2 also one for each job.

    `log_format` is what `--log-format` said, or None. `takes_root`: nothing but this command is in charge of the
    process, so once the program is imported, records of other loggers are written as well. `warn` is told where the
    format cannot be had.
    """

    def __init__(
        self, verbosity: int, log_format: str | None, *, takes_root: bool, warn: Callable[[str], object]
    ) -> None:
        self._level = _LEVELS.get(verbosity, logging.DEBUG)
        self._format = log_format
        self._takes_root = takes_root
        self._warn = warn
        self._logger = logging.getLogger("tinyjobs")
        self._root = logging.getLogger()
        self._level_before = self._logger.level
        self._handler: logging.Handler | None = None
        self._home = self._logger

    def __enter__(self) -> Self:
        """Install the handler, unless there is one already."""
        if sys.stderr is not None and not self._logger.hasHandlers():
            self._handler = _handler_on(sys.stderr)
            self._handler.setFormatter(JSONFormatter() if self._format == "json" else TextFormatter())
            self._level_before = self._logger.level
            self._logger.addHandler(self._handler)
            self._logger.setLevel(self._level)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Take it away again, and leave the loggers as they were."""
        self._remove()

    def settle(self) -> None:
        """The program's modules are imported: give way where they have set up logging, else take what is ours."""
        if self._handler is None or self._is_taken():
            self._remove()
            if self._format is not None and sys.stderr is not None:
                self._warn(
                    f"--log-format {self._format} changes nothing here: the program sets up logging itself. "
                    f"tinyjobs.{'JSON' if self._format == 'json' else 'Text'}Formatter is the formatter to name there."
                )
        elif self._takes_root:
            self._logger.removeHandler(self._handler)
            self._root.addHandler(self._handler)
            self._home = self._root

    def _is_taken(self) -> bool:
        others = [handler for handler in self._logger.handlers if handler is not self._handler]
        return bool(others or (self._logger.propagate and self._root.handlers))

    def tell(self, level: int, text: str) -> bool:
        """Write a line as a record, where the log is JSON for a program to read; whether it was."""
        if self._handler is None or self._format != "json":
            return False
        if text.strip():
            self._logger.log(level, "%s", text.strip())
        return True

    def console(self, console: Console) -> Console:
        """A console whose lines are records where the log is JSON."""

        def out(text: str) -> None:
            if not self.tell(logging.INFO, text):
                console.line(text)

        def err(text: str) -> None:
            if not self.tell(logging.WARNING, text):
                console.warn(text)

        return Console(out, err, verbosity=console.verbosity)

    def _remove(self) -> None:
        handler, self._handler = self._handler, None
        if handler is not None:
            self._home.removeHandler(handler)
            self._logger.setLevel(self._level_before)
            handler.close()


class SinkHandler(logging.Handler):
    """A handler that waits for nobody and has no trouble that anybody else could feel."""

    def __init__(self, sink: LineSink) -> None:
        super().__init__()
        self._sink = sink

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record."""
        self._sink.write(self.format(record))

    def close(self) -> None:
        """Wait a moment for what is not written."""
        self._sink.close(PATIENCE)
        super().close()


class _StreamHandler(logging.StreamHandler[TextIO]):
    def handleError(self, record: logging.LogRecord) -> None:
        """A stream that takes no text takes no complaint either."""


def _handler_on(stream: TextIO) -> logging.Handler:
    sink = sink_on(stream)
    return _StreamHandler(stream) if sink is None else SinkHandler(sink)
