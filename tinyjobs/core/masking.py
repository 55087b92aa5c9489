"""What people who look at jobs do not get to see: the values of keys that match a pattern, and those values elsewhere.

Pure. A `Mask` is the patterns, made once from the settings. A `Veil` is what one look at one job goes through: it turns
arguments into plain values without the hidden ones, remembers those, and takes them out of texts such as tracebacks.
"""

import math
import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from fnmatch import translate
from functools import cached_property
from typing import Any, Final, Self

from tinyjobs.core.errors import ConfigurationError

#: What is hidden where the settings say nothing.
DEFAULT_PATTERNS: Final = (
    "*password*",
    "*passwd*",
    "*passphrase*",
    "*secret*",
    "*token*",
    "*authorization*",
    "*api_key*",
    "*apikey*",
    "*private_key*",
    "*credential*",
)
#: What stands in the place of a hidden value.
HIDDEN: Final = "••••••"

# Shorter values are too likely to be a part of something else.
_SHORTEST_SECRET = 4
_DEEPEST = 60
# What lies behind so many characters of a text is not looked at, so it is not shown.
_LONGEST = 2_000_000
# The most characters that are compared to take remembered values out of one text, times their number.
_MOST_WORK = 50_000_000
_WORD = r"[\w.\-]"
# Anybody may have written the texts, so the work is in proportion to their length: no pattern takes back what it has
# read (`++`), and a key is read whole before anything is compared with it.
_BEFORE_VALUE = r"""\\?["']?\s*+(?:=>|[:=])\s*+"""
_PAIR = re.compile(rf"(?<!{_WORD})(?P<key>{_WORD}++){_BEFORE_VALUE}")
_VALUE = re.compile(
    r"(?:bearer|basic|digest|token)\s++[^\s,;'\"]++"
    # Quotes that are escaped themselves, as in JSON inside a text.
    r"""|\\++"[^"]*+"?|\\++'[^']*+'?"""
    # A quote that is never closed hides all that follows.
    r"""|"(?:\\.|[^"\\])*+(?:"|\\?\Z)|'(?:\\.|[^'\\])*+(?:'|\\?\Z)|[^\s,;&)\]}'"]++""",
    re.IGNORECASE | re.DOTALL,
)
_ADDRESS = re.compile(r"(://[^\s:/@]*+:)[^\s/@]++(?=@)")
# Patterns of keys that are one word, and the most characters that `*` means in those that are not.
_IS_WORD = re.compile(rf"(?:{_WORD}|[*?])+")
_RUN = 40


@dataclass(frozen=True)
class Mask:
    """Patterns of keys, such as `*password*`: `*` and `?` as in file names, of either case, `-` the same as `_`."""

    patterns: tuple[str, ...] = DEFAULT_PATTERNS

    def __repr__(self) -> str:
        return repr(list(self.patterns))

    @classmethod
    def parse(cls, given: object, source: str) -> Self:
        """The patterns of a setting, which take the place of the usual ones; an empty list hides nothing."""
        if isinstance(given, str) or not isinstance(given, Sequence | Set):
            raise ConfigurationError(f"{source}: {given!r:.100} is not a list of patterns, such as ['*password*'].")
        for pattern in given:
            if not isinstance(pattern, str) or not pattern.strip():
                raise ConfigurationError(f"{source}: {pattern!r:.100} is no pattern of a key, such as '*password*'.")
        return cls(tuple(sorted(given) if isinstance(given, Set) else given))

    def hides(self, key: object) -> bool:
        """Whether the value of this key is not to be seen."""
        return self._keys is not None and isinstance(key, str) and self._keys.match(_alike(key)) is not None

    def text(self, text: str) -> str:
        """The text without values that stand behind such a key in it, and without the password of an address.

        The end of an immense text is hidden as a whole.
        """
        if not self.patterns:
            return text
        if len(text) <= _LONGEST:
            return self._hidden(text)
        # Between words, so that nothing is cut in two of which one half alone is no longer known for what it is.
        gap = next(re.finditer(r"\s", text[_LONGEST - 1 :: -1]), None)
        return f"{self._hidden(text[: 0 if gap is None else _LONGEST - gap.start()])}{HIDDEN}"

    def _hidden(self, text: str) -> str:
        parts, done, place = [], 0, 0
        while (pair := _PAIR.search(text, place)) is not None:
            place = pair.end()
            if self.hides(pair["key"]) and (value := _VALUE.match(text, place)) is not None:
                parts += [text[done:place], HIDDEN]
                done = place = value.end()
        text = "".join([*parts, text[done:]])
        if self._phrases is not None:
            text = self._phrases.sub(rf"\g<before>{HIDDEN}", text)
        return _ADDRESS.sub(rf"\g<1>{HIDDEN}", text)

    @cached_property
    def _keys(self) -> re.Pattern[str] | None:
        patterns = [translate(_alike(pattern)) for pattern in self.patterns]
        return re.compile("|".join(patterns)) if patterns else None

    @cached_property
    def _phrases(self) -> re.Pattern[str] | None:
        """Keys with more in them than one word has, such as a space."""
        phrases = "|".join(_as_phrase(pattern) for pattern in self.patterns if not _IS_WORD.fullmatch(pattern))
        if not phrases:
            return None
        key = rf"(?<!{_WORD})(?:{phrases})(?!{_WORD})"
        return re.compile(rf"(?P<before>{key}{_BEFORE_VALUE})(?:{_VALUE.pattern})", re.IGNORECASE | re.DOTALL)


class Veil:
    """One look through a mask. What it has hidden once, it takes out of every text it is shown afterwards."""

    def __init__(self, mask: Mask) -> None:
        self._mask = mask
        self._secrets: set[str] = set()
        self._is_blind = False

    def call(self, args: Sequence[Any], kwargs: Mapping[str, Any], names: Sequence[str]) -> tuple[list[Any], Any]:
        """The arguments of a call as plain values; `names` are those of the positional parameters."""
        named = [*names[: len(args)], *[""] * (len(args) - len(names))]
        return [self._of(name, value, 1) for name, value in zip(named, args, strict=True)], self.value(kwargs)

    def value(self, value: Any) -> Any:
        """The value as what JSON has words for. What it has none for is shown as Python writes it."""
        return self._plain(value, 0)

    def go_blind(self) -> None:
        """Show no text from now on: there are arguments that were not looked at, whose values may stand in it."""
        self._is_blind = bool(self._mask.patterns)

    def text(self, text: str) -> str:
        """The text without what a key in it hides, and without what was hidden before.

        Nothing of it is shown where that were too much work: a long text, and many values that were hidden.
        """
        if self._is_blind or len(text) * len(self._secrets) > _MOST_WORK:
            return HIDDEN
        for secret in sorted(self._secrets, key=len, reverse=True):
            text = text.replace(secret, HIDDEN)
        return self._mask.text(text)

    def _of(self, key: object, value: Any, depth: int) -> Any:
        if not self._mask.hides(key):
            return self._plain(value, depth)
        self._remember(value, depth)
        return HIDDEN

    def _remember(self, value: Any, depth: int) -> None:
        if depth > _DEEPEST or value is None or isinstance(value, bool):
            return
        if isinstance(value, Mapping):
            value = list(value.values())
        if isinstance(value, list | tuple | Set):
            for part in value:
                self._remember(part, depth + 1)
            return
        text = value if isinstance(value, str) else _written(value)
        if len(text) >= _SHORTEST_SECRET:
            self._secrets |= {text, repr(text)[1:-1]}

    def _plain(self, value: Any, depth: int) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if depth > _DEEPEST:
            return "…"
        if isinstance(value, Enum):
            return _written(value)
        if isinstance(value, str):
            return self._mask.text(value)
        if isinstance(value, int | float):
            return _number(value)
        if isinstance(value, Mapping):
            return {_key(key): self._of(key, part, depth + 1) for key, part in value.items()}
        if isinstance(value, list | tuple | Set):
            return [self._plain(part, depth + 1) for part in value]
        if is_dataclass(value) and not isinstance(value, type):
            return {
                entry.name: self._of(entry.name, getattr(value, entry.name, None), depth + 1) for entry in fields(value)
            }
        return self._mask.text(_written(value))


def restored(shown: Any, kept: Any, mask: Mask) -> Any:
    """What somebody edited, with the kept values in the places that were hidden from them."""
    if shown == HIDDEN or (isinstance(shown, str) and isinstance(kept, str) and shown == mask.text(kept)):
        return kept
    if isinstance(shown, Mapping) and isinstance(kept, Mapping):
        return {key: restored(part, kept[key], mask) if key in kept else part for key, part in shown.items()}
    if isinstance(shown, list) and isinstance(kept, list | tuple):
        return [restored(part, kept[place], mask) if place < len(kept) else part for place, part in enumerate(shown)]
    return kept if _stands_for(shown, kept, mask) else shown


def _stands_for(shown: Any, kept: Any, mask: Mask) -> bool:
    """Whether it is how something is shown that JSON has no words for."""
    has_words = isinstance(kept, str | bool | Mapping | list | tuple) or kept is None
    return not has_words and isinstance(shown, str | Mapping | list) and shown == Veil(mask).value(kept)


def _alike(key: str) -> str:
    return key.lower().replace("-", "_")


def _as_phrase(pattern: str) -> str:
    parts = {"*": f"{_WORD}{{0,{_RUN}}}", "?": _WORD, "-": "[-_]", "_": "[-_]"}
    return "".join(parts.get(character, re.escape(character)) for character in re.sub(r"\*+", "*", pattern))


def _key(key: object) -> str:
    return key if isinstance(key, str) else _written(key)


def _number(value: Any) -> Any:
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else repr(value)
    return int(value) if -(10**300) < value < 10**300 else hex(value)


def _written(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # whatever a class of the program's may raise
        return f"<a {type(value).__name__} that cannot be shown>"
