"""The JSON text itself: a tree of JSON's own types to stored bytes, and bytes back to a value.

What is stored is strict JSON in valid UTF-8: no NaN, no half characters, characters outside ASCII as themselves.
"""

import json
import re
from collections.abc import Callable
from json import encoder as json_encoder
from typing import Any, Final

TAG: Final = "$t"
VALUE: Final = "$v"

_SPLIT_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def no_such_token(token: str) -> object:
    """Refuse what Python would read beyond JSON: `NaN`, `Infinity`, `-Infinity`."""
    raise ValueError(f"{token} is not JSON")


def text_writer(make: Any) -> Callable[[object], str]:
    """Return what writes a tree as text: the C encoder that `make` makes, or the public one if that has changed.

    `json.dumps` makes the C encoder again for every call, which costs more than the call.
    """
    options: dict[str, Any] = {"ensure_ascii": False, "check_circular": False, "allow_nan": False}
    portable = json.JSONEncoder(separators=(",", ":"), **options)
    if make is not None:
        try:
            # markers, default, encoder, indent, key separator, item separator, sort_keys, skipkeys, allow_nan
            write = make(None, portable.default, json_encoder.encode_basestring, None, ":", ",", False, False, False)
            if "".join(write([1, "é", {}], 0)) == '[1,"é",{}]':
                return lambda tree: "".join(write(tree, 0))
        except TypeError:  # a Python that has changed this inner name
            pass
    return portable.encode


_written = text_writer(getattr(json_encoder, "c_make_encoder", None))


def stored(tree: object) -> bytes:
    """Return the bytes for a tree of `str`, `int`, `float`, `bool`, `None`, and lists and text-keyed dicts of them."""
    text = _written(tree)
    try:
        return text.encode()
    except UnicodeEncodeError:
        if _SPLIT_PAIR.search(text):
            text = _written(_pairs_kept_apart(tree))
        # Python spells a lone surrogate here the way JSON does, and leaves the rest of the text readable.
        return text.encode("utf-8", "backslashreplace")


def _pairs_kept_apart(tree: object) -> object:
    """The same tree, with a tag on text that has both halves of a surrogate pair: JSON would read one character."""
    if type(tree) is str and _SPLIT_PAIR.search(tree):
        return {TAG: "str", VALUE: list(tree)}
    if type(tree) is list:
        return [_pairs_kept_apart(item) for item in tree]
    if type(tree) is dict:
        if any(_SPLIT_PAIR.search(key) for key in tree):
            return {TAG: "dict", VALUE: [[_pairs_kept_apart(part) for part in pair] for pair in tree.items()]}
        return {key: _pairs_kept_apart(value) for key, value in tree.items()}
    return tree


def is_deep(value: object, levels: int) -> bool:
    """Whether containers stand in each other more than `levels` deep.

    Asked level by level, so that the question itself cannot run out of stack.
    """
    level: list[Any] = [(value,)]
    for _ in range(levels + 1):
        level = [
            inner
            for outer in level
            for inner in ((*outer, *outer.values()) if type(outer) is dict else outer)
            if type(inner) in (list, dict, tuple, set, frozenset)
        ]
        if not level:
            return False
    return True
