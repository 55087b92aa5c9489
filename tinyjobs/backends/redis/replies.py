"""What is sent to a Redis server and what comes back, as bytes: the older form of its protocol, which they all speak.

Knows neither sockets nor scripts. Replies are bytes, integers, lists, None, and `ReplyError` for an error.
"""

from collections.abc import Callable, Sequence
from typing import Any

from redis import exceptions

# Not when it is needed: a child that is forked while another thread imports could never finish the same import.
try:
    import hiredis  # type: ignore[import-not-found, unused-ignore]
except ImportError:
    hiredis = None

_END = b"\r\n"
# What stands between two words, for those that are short: most are.
_SHORT = 512
_SIZES = [b"\r\n$%d\r\n" % size for size in range(_SHORT)]
# A reply's first line has at most an error's text, and arrays are never that deep.
_LONGEST_LINE = 1 << 20


class InvalidReply(exceptions.InvalidResponse):
    """What came is no reply of a Redis server."""


class ReplyError(exceptions.ResponseError):
    """An error that the server has answered; its text begins with the server's word for it."""


def packed(words: Sequence[str | bytes | int | float]) -> bytes:
    """One command as it is sent. Raises `UnicodeEncodeError` for half a character, `TypeError` for what is no word."""
    parts = [b"*%d" % len(words)]
    for word in words:
        if isinstance(word, bytes):
            text = word
        elif isinstance(word, str):
            text = word.encode()
        elif isinstance(word, float):
            text = float.__repr__(word).encode()
        elif type(word) is int:
            text = b"%d" % word
        else:
            raise TypeError(f"a command is made of texts, bytes and numbers, not {type(word).__name__}")
        size = len(text)
        parts += _SIZES[size] if size < _SHORT else b"\r\n$%d\r\n" % size, text
    parts.append(_END)
    return b"".join(parts)


class Replies:
    """Takes apart what arrives, in pieces of any size. Each byte is looked at a bounded number of times."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._size = 0
        # How many bytes there have to be before it is worth looking at them again.
        self._needed = 0
        # Arrays that are not yet full, with how many items they still lack.
        self._open: list[tuple[list[Any], int]] = []

    def feed(self, data: bytes) -> list[Any]:
        """The replies that end in this piece. Raises `InvalidReply` for what is none."""
        if self._rest:
            self._rest.append(data)
            self._size += len(data)
            if self._size < self._needed:
                return []
            data = b"".join(self._rest)
            self._rest = []
        replies: list[Any] = []
        at, end = 0, len(data)
        while at < end:
            after = self._read(data, at, replies)
            if after < 0:
                self._rest, self._size = [data[at:] if at else data], end - at
                self._needed = -after - at
                break
            at = after
        return replies

    def _read(self, data: bytes, at: int, replies: list[Any]) -> int:
        """Read what begins there; where it ends, or below zero up to where there have to be bytes."""
        line_end = data.find(_END, at)
        if line_end < 0:
            if len(data) - at > _LONGEST_LINE:
                raise InvalidReply("the server sent a line without an end")
            return -len(data) - 1
        after = line_end + 2
        kind = data[at]
        value: Any
        if kind == 36:  # $
            size = _number(data[at + 1 : line_end])
            if size < 0:
                value = None
            else:
                start, after = after, after + size + 2
                if after > len(data):
                    return -after
                value = data[start : after - 2]
        elif kind == 58:  # :
            value = _number(data[at + 1 : line_end])
        elif kind == 42:  # *
            count = _number(data[at + 1 : line_end])
            if count > 0:
                self._open.append(([], count))
                return after
            value = [] if count == 0 else None
        elif kind == 43:  # +
            value = data[at + 1 : line_end]
        elif kind == 45:  # -
            value = ReplyError(data[at + 1 : line_end].decode("utf-8", "replace"))
        else:
            raise InvalidReply("what was sent back is no reply of a Redis server")
        self._add(value, replies)
        return after

    def _add(self, value: Any, replies: list[Any]) -> None:
        opened = self._open
        while opened:
            items, lacking = opened[-1]
            items.append(value)
            if lacking > 1:
                opened[-1] = items, lacking - 1
                return
            opened.pop()
            value = items
        replies.append(value)


class FastReplies:
    """The same by hiredis, where that is installed."""

    def __init__(self, reader: Callable[..., Any]) -> None:
        self._reader = reader(protocolError=InvalidReply, replyError=ReplyError)

    def feed(self, data: bytes) -> list[Any]:
        """The replies that end in this piece. Raises `InvalidReply` for what is none."""
        self._reader.feed(data)
        replies: list[Any] = []
        while (reply := self._reader.gets()) is not False:
            replies.append(reply)
        return replies


def new_replies() -> Replies | FastReplies:
    """For one connection."""
    return Replies() if hiredis is None else FastReplies(hiredis.Reader)


def _number(text: bytes) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidReply("the server sent a length that is no number") from None
