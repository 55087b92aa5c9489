"""Formatters for the log: a JSON object per line for programs that collect logs, plain lines for people.

Both take any record, of whatever logger, and never raise. What a record about a job carries beside its text stands in
`core/logs.py`. The traceback of a job's last failure is a field of its record, and is preferred to the exception that
comes along with it: it is bounded, and made while the frames were there.
"""

import json
import logging
import math
from datetime import UTC, datetime
from typing import Any, Final

from tinyjobs.cli.console import plain_lines

_TEXT: Final = "%(asctime)s %(levelname)-7s %(message)s"
# What every record has, so that the rest is what somebody added to it.
_USUAL: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "traceback"}
_OURS: Final = ("time", "level", "logger", "message")


class JSONFormatter(logging.Formatter):
    """One JSON object per line, in ASCII: `time` (UTC), `level`, `logger`, `message`, then the record's extra fields,
    and `traceback` where there is one.

    A value that JSON has no word for is written as Python writes it.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The record as a line without a newline."""
        told: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": _message(record),
        }
        for name, value in vars(record).items():
            if name not in _USUAL and name not in _OURS:
                told[str(name)] = _plain(value)
        traceback = _traceback(self, record)
        if traceback:
            told["traceback"] = traceback
        return json.dumps(told)


class TextFormatter(logging.Formatter):
    """Lines for people, with a traceback under its line; nothing that a record quotes can steer a terminal.

    Takes the arguments of `logging.Formatter`.
    """

    def __init__(self, fmt: str | None = None, *args: Any, **kwargs: Any) -> None:
        super().__init__(fmt or _TEXT, *args, **kwargs)

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line or several."""
        record.message = _message(record)
        if self.usesTime():
            record.asctime = self.formatTime(record, self.datefmt)
        try:
            line = self.formatMessage(record)
        except Exception:  # a format that asks for a field which this record has not got
            line = record.message
        return "\n".join(plain_lines(f"{line}\n{_traceback(self, record)}".rstrip("\n")))


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:
        # Arguments that do not fit the text, or whose own text cannot be made.
        return f"{_shown(record.msg)} {_shown(record.args)}"


def _traceback(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    told = getattr(record, "traceback", None)
    parts = [told.rstrip("\n")] if isinstance(told, str) else []
    try:
        if not parts and record.exc_info and record.exc_info[0] is not None:
            parts.append(formatter.formatException(record.exc_info))
        elif not parts and record.exc_text:
            parts.append(record.exc_text)
        if record.stack_info:
            parts.append(formatter.formatStack(record.stack_info))
    except Exception as error:
        parts.append(f"[the traceback could not be written: {type(error).__name__}]")
    return "\n".join(parts)


def _plain(value: object) -> object:
    """The value as JSON can have it."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    try:
        json.dumps(value, allow_nan=False)
    except Exception:
        return _shown(value)
    return value


def _shown(value: object) -> str:
    try:
        return value if isinstance(value, str) else repr(value)
    except Exception as error:
        return f"<{type(value).__name__} whose text could not be made: {type(error).__name__}>"
