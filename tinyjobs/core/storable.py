"""Text that every store takes, and an exception told in such text.

SQLite stops at a NUL, Postgres refuses it, and no driver can send half a surrogate pair: a job whose error text held
one would never reach its final state. Everything here takes what it is given, answers with a bounded text and never
raises, so it may stand on the path that records a failure.
"""

import re
import traceback
import types
from collections.abc import Iterator
from typing import Final, NamedTuple

MESSAGE_LIMIT: Final = 4_000
TRACEBACK_LIMIT: Final = 32_000
TYPE_LIMIT: Final = 255

# What one report looks at, whatever the exception is made of: beyond these it says how much it leaves out.
_EXCEPTIONS: Final = 40
_CHAIN: Final = 12
_MEMBERS: Final = 12
_GROUP_DEPTH: Final = 5
_NOTES: Final = 20
_FIRST_FRAMES: Final = 40
_LAST_FRAMES: Final = 80

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_FRAMES_HEADER = "Traceback (most recent call last):\n"
_CAUSED = "\nThe above exception was the direct cause of the following exception:\n\n"
_DURING = "\nDuring handling of the above exception, another exception occurred:\n\n"


class ErrorText(NamedTuple):
    """An exception in words: the dotted path of its type, its message, and its traceback with the whole chain."""

    error_type: str
    message: str
    traceback: str


def storable(text: str, limit: int) -> str:
    """Return `text` with NUL and lone surrogates spelled out, cut in the middle to at most `limit` characters.

    What was cut is counted in a note that stands in its place; head and tail are kept, about half of the room each.
    The cost is bounded by `limit`, not by the length of `text`, except that a text just within the limit is searched.
    """
    text = str.__str__(text)  # a subclass may have its own ideas of slicing
    if len(text) <= limit:
        whole = _visible(text)
        if len(whole) <= limit:
            return whole
    note = "\n[… {} characters left out …]\n"
    room = limit - len(note.format(len(text)))
    if room < 2:
        return _fitting(text[:limit], limit)[0]
    head, taken = _fitting(text[: room - room // 2], room - room // 2)
    rest = text[taken:]
    tail, kept = _fitting(rest[-(room // 2) :], room // 2, from_end=True)
    return head + note.format(len(rest) - kept) + tail


def describe_exception(error: BaseException) -> ErrorText:
    """Tell `error` in bounded, storable text. Never raises, whatever the exception's own methods do.

    The message holds at most 4,000 characters, the traceback 32,000 with head and tail kept.
    """
    error_type = _type_path(type(error))
    message = _said(error, MESSAGE_LIMIT)
    try:
        story = "".join(_Report().tell(error))
    except BaseException as failure:  # an exception class may answer any attribute with a surprise
        story = f"{error_type}: {message}\n[the traceback could not be written: {_type_path(type(failure))}]\n"
    return ErrorText(error_type, message, storable(story, TRACEBACK_LIMIT))


def _visible(text: str) -> str:
    if text.isascii() and "\0" not in text:
        return text
    return _UNSTORABLE.sub(_spelled_out, text)


def _spelled_out(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\u{code:04x}" if code else "\\x00"


def _fitting(text: str, room: int, *, from_end: bool = False) -> tuple[str, int]:
    """The visible form of as many characters of `text` as fit, with their number; never half an escape."""
    whole = _visible(text)
    if len(whole) <= room:
        return whole, len(text)
    pieces: list[str] = []
    for character in reversed(text) if from_end else text:
        piece = _visible(character)
        room -= len(piece)
        if room < 0:
            break
        pieces.append(piece)
    if from_end:
        pieces.reverse()
    return "".join(pieces), len(pieces)


def _type_path(kind: type) -> str:
    try:
        return storable(f"{kind.__module__}.{kind.__qualname__}", TYPE_LIMIT)
    except BaseException:  # a metaclass that refuses to say
        return storable(type.__repr__(kind), TYPE_LIMIT)


def _said(value: object, limit: int) -> str:
    """`str(value)`, or why there is none."""
    try:
        return storable(str(value), limit)
    except BaseException as failure:
        # Also KeyboardInterrupt and SystemExit: here they come from the value's own code.
        return f"<the text of this {_type_path(type(value))} could not be made: {_type_path(type(failure))}>"


class _Report:
    """Writes one traceback. It counts what it has written, so that chains, loops and groups all end."""

    def __init__(self) -> None:
        self._left = _EXCEPTIONS
        self._seen: set[int] = set()

    def tell(self, error: BaseException, depth: int = 0) -> Iterator[str]:
        """Yield the chain that led to `error`, oldest first, then `error` itself."""
        chain = [(error, "")]
        self._seen.add(id(error))
        while True:
            earlier, link = _before(chain[-1][0])
            if earlier is None or id(earlier) in self._seen:
                break
            if len(chain) == _CHAIN:
                yield "[… earlier exceptions left out …]\n\n"
                break
            self._seen.add(id(earlier))
            chain[-1] = (chain[-1][0], link)
            chain.append((earlier, ""))
        for link_error, link in reversed(chain):
            self._left -= 1
            yield link
            yield from self._one(link_error, depth)

    def _one(self, error: BaseException, depth: int) -> Iterator[str]:
        frames = error.__traceback__
        if frames is not None:
            yield _FRAMES_HEADER
            yield from _frame_lines(frames)
        kind = type(error)
        name = _type_path(kind).removeprefix("builtins.")
        message = _said(error, MESSAGE_LIMIT)
        yield f"{name}: {message}\n" if message else f"{name}\n"
        notes = getattr(error, "__notes__", None)
        if isinstance(notes, list | tuple):
            for note in notes[:_NOTES]:
                yield _said(note, MESSAGE_LIMIT) + "\n"
            if len(notes) > _NOTES:
                yield f"[… {len(notes) - _NOTES} notes left out …]\n"
        if isinstance(error, BaseExceptionGroup):
            yield from self._members(error.exceptions, depth + 1)

    def _members(self, members: tuple[BaseException, ...], depth: int) -> Iterator[str]:
        shown = 0
        for position, member in enumerate(members[:_MEMBERS], 1):
            if depth > _GROUP_DEPTH or self._left <= 0:
                break
            shown += 1
            yield f"  +---------------- {position} of {len(members)}\n"
            if id(member) in self._seen:
                yield "  | [told above]\n"
                continue
            for line in "".join(self.tell(member, depth)).splitlines():
                yield f"  | {line}\n"
        if shown < len(members):
            yield f"  +---------------- {len(members) - shown} more left out\n"


def _before(error: BaseException) -> tuple[BaseException | None, str]:
    if error.__cause__ is not None:
        return error.__cause__, _CAUSED
    if error.__suppress_context__:
        return None, ""
    return error.__context__, _DURING


def _frame_lines(frames: types.TracebackType) -> Iterator[str]:
    every: list[types.TracebackType] = []
    link: types.TracebackType | None = frames
    while link is not None:
        every.append(link)
        link = link.tb_next
    left_out = len(every) - _FIRST_FRAMES - _LAST_FRAMES
    if left_out <= 0:
        yield from _extracted(every)
        return
    yield from _extracted(every[:_FIRST_FRAMES])
    yield f"  [… {left_out} frames left out …]\n"
    yield from _extracted(every[-_LAST_FRAMES:])


def _extracted(links: list[types.TracebackType]) -> list[str]:
    # Rebuilt, because the standard library follows `tb_next` to the end and a deep recursion has no end to speak of.
    chain: types.TracebackType | None = None
    for link in reversed(links):
        chain = types.TracebackType(chain, link.tb_frame, link.tb_lasti, link.tb_lineno)
    try:
        return traceback.format_list(traceback.extract_tb(chain))
    except Exception:  # a module loader that cannot give its source
        codes = ((link.tb_frame.f_code, link.tb_lineno) for link in links)
        return [f'  File "{code.co_filename}", line {line}, in {code.co_name}\n' for code, line in codes]
