"""The log of a command: plain lines on the error stream, as long as the program has set up no logging of its own."""

import logging
import sys
from collections.abc import Generator
from contextlib import contextmanager

from tinyjobs.cli.console import plain_lines

_FORMAT = "%(asctime)s %(levelname)-7s %(message)s"
_LEVELS = {0: logging.WARNING, 1: logging.INFO}


class PlainFormatter(logging.Formatter):
    """Lines for a terminal, which nothing that a record quotes can steer."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as text, control characters spelled out."""
        return "\n".join(plain_lines(super().format(record)))


@contextmanager
def plain_log(verbosity: int) -> Generator[None]:
    """While the block runs, records of `tinyjobs` are written to stderr; at verbosity 2 also one for each job."""
    logger = logging.getLogger("tinyjobs")
    if logger.hasHandlers() or sys.stderr is None:
        yield
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PlainFormatter(_FORMAT))
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(_LEVELS.get(verbosity, logging.DEBUG))
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
