"""The default codec: JSON, with `{"$t": kind, "$v": …}` for what JSON has no word for.

A payload of plain values is plain JSON, which anyone can read in a database shell. A value comes back equal and of
the same types, or is refused with the path to it. What is exact and what is refused:

- `str`, `bool`, `None`, `list`, `dict` with text keys, and `int`, `float` as JSON has them; other numbers, other keys,
  keys that look like a tag, and the kinds of `kinds` are tagged. An object met twice comes back as two equal ones.
- Integers up to 4,300 digits; nesting up to 200 levels, so a cycle is refused too.
- A subclass of a covered type (an ordered or default dict, a named tuple, a marked-up string, an unregistered enum)
  would come back as something else and is refused, and so are `bytearray` and `memoryview`: pass `bytes(value)`.

The walk over a value is written for speed, it runs at every enqueue: plain values are told by their exact type and
handed to the C encoder as they are.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Final

from tinyjobs.core.codecs.base import as_call
from tinyjobs.core.codecs.kinds import BUILT_IN, Kind, Refused, int_apart
from tinyjobs.core.codecs.refusals import in_short, located, step, unsupported
from tinyjobs.core.codecs.registered import TypeAdapter, adapter_kind, dataclass_kind, enum_kind
from tinyjobs.core.codecs.text import TAG, VALUE, is_deep, no_such_token, stored
from tinyjobs.core.errors import ConfigurationError, SerializationError
from tinyjobs.core.storable import storable

MAX_DEPTH: Final = 200
"""How many containers may stand inside each other."""

_TAG_IN_TEXT: Final = '"$t"'
_COVERED: Final = frozenset({str, bool, type(None), int, float, list, *(kind.type for kind in BUILT_IN)})
_AS_IT_IS: Final = frozenset({str, bool, type(None)})
# As many digits as every Python reads, however low its limit is set; longer ones are tagged and written in hex.
_LARGEST_PLAIN: Final = 10**640 - 1
_SMALLEST_PLAIN: Final = -_LARGEST_PLAIN
_TOO_DEEP: Final = f"it is nested more than {MAX_DEPTH} levels deep, or contains itself"

_AROUND_ARGUMENTS: Final = 2  # the pair of arguments, and the list or object of them
_SURELY_SHALLOW: Final = 100  # with fewer brackets in the text nothing can be nested too deep, and nobody looks

type _Encoder = Callable[[Any, int], object]

_plain_decoder = json.JSONDecoder(parse_constant=no_such_token)


class JSONCodec:
    """Tagged JSON, and the place where a program registers its own types. Each app has one.

    Safe to share between threads; register before the first use, at import time.
    """

    name: Final = "json"

    def __init__(self) -> None:
        self._kinds: dict[str, Kind] = {}
        self._builders: dict[str, Callable[[Any], object]] = {kind.name: kind.build for kind in BUILT_IN}
        self._encoders: dict[type[Any], _Encoder] = {kind.type: self._encoder_of(kind) for kind in BUILT_IN}
        self._encoders |= {str: _as_it_is, bool: _as_it_is, type(None): _as_it_is}
        self._encoders |= {int: _int, float: _float, list: self._list, dict: self._dict}
        self._encoders |= {
            tuple: lambda value, depth: {TAG: "tuple", VALUE: self._list(value, depth)},
            set: lambda value, depth: {TAG: "set", VALUE: self._elements(value, depth)},
            frozenset: lambda value, depth: {TAG: "frozenset", VALUE: self._elements(value, depth)},
        }
        self._tagged_decoder = json.JSONDecoder(object_hook=self._untagged, parse_constant=no_such_token)

    # Registration.

    def register_dataclass[T](self, cls: type[T], name: str | None = None) -> type[T]:
        """Store values of this dataclass by their fields, under `name` (by default the name of the class).

        Returns the class, so it serves as a decorator. Raises `ConfigurationError` for what cannot work.
        """
        self._register(dataclass_kind(cls, name))
        return cls

    def register_enum[E: Enum](self, cls: type[E], name: str | None = None) -> type[E]:
        """Store members of this enum by their names, flags by their number, under `name` (by default the class's)."""
        self._register(enum_kind(cls, name))
        return cls

    def register_type[A: TypeAdapter](self, adapter: A) -> A:
        """Store values of `adapter.type` by way of the adapter, under `adapter.name`."""
        self._register(adapter_kind(adapter))
        return adapter

    def _register(self, kind: Kind) -> None:
        cls = f"{kind.type.__module__}.{kind.type.__qualname__}"
        if kind.type in _COVERED:
            raise ConfigurationError(f"{cls} is covered by the codec itself and cannot be registered.")
        if type(kind.name) is not str or not kind.name.isprintable() or not 0 < len(kind.name) <= 100:
            raise ConfigurationError(f"{cls} needs a name of 1 to 100 printable characters, not {kind.name!r}.")
        if kind.name in self._builders and kind.name not in self._kinds:
            raise ConfigurationError(f"The name {kind.name!r} belongs to the codec itself: register {cls} with name=.")
        for other in self._kinds.values():
            same_class = _place(other.type) == _place(kind.type)  # also when its module was loaded again
            if same_class and other.name != kind.name:
                raise ConfigurationError(f"{cls} is registered already, under the name {other.name!r}.")
            if other.name == kind.name and not same_class:
                holder = ".".join(_place(other.type))
                raise ConfigurationError(f"{holder} has the name {kind.name!r} already: register {cls} with name=.")
        self._encoders[kind.type] = self._encoder_of(kind)
        self._builders[kind.name] = kind.build
        self._kinds[kind.name] = kind

    # Encoding. The walk answers with a tree of what JSON has, its own lists and dicts, for the encoder to write.

    def encode(self, value: object, *, root: str = "value") -> bytes:
        """Return `value` as UTF-8 JSON. Raises `SerializationError` with the path to the culprit, from `root` on."""
        try:
            return stored(self._value(value, 1))
        except MemoryError:
            raise
        except Exception as error:
            raise located(error, root) from error.__cause__

    def encode_call(self, args: Sequence[object], kwargs: Mapping[str, object]) -> bytes:
        """Return the arguments of one call as `[[positional, …], {"name": keyword, …}]`."""
        root = "args"
        try:
            positional = self._list(args, 0) if args else []
            if not kwargs:
                return stored([positional, {}])
            root = "kwargs"
            keywords = self._dict(kwargs, 0)
            if TAG in keywords and not all(type(name) is str for name in kwargs):
                raise Refused("the name of a keyword argument must be text")
            return stored([positional, keywords])
        except MemoryError:
            raise
        except Exception as error:
            raise located(error, root) from error.__cause__

    def _value(self, value: object, depth: int) -> object:
        encoder = self._encoders.get(type(value))
        if encoder is None:
            raise unsupported(value)
        return encoder(value, depth)

    def _list(self, values: Iterable[object], depth: int) -> list[object]:
        if depth > MAX_DEPTH:
            raise Refused(_TOO_DEEP)
        tree: list[object] = []
        for value in values:
            kind = type(value)
            if kind in _AS_IT_IS or (kind is int and _SMALLEST_PLAIN <= value <= _LARGEST_PLAIN):  # type: ignore[operator]
                tree.append(value)
                continue
            try:
                tree.append(self._value(value, depth + 1))
            except Refused as refused:
                refused.steps.append(f"[{len(tree)}]")
                raise
        return tree

    def _dict(self, values: Mapping[Any, object], depth: int) -> dict[str, object]:
        if depth > MAX_DEPTH:
            raise Refused(_TOO_DEEP)
        tree: dict[str, object] = {}
        for key, value in values.items():
            if type(key) is not str or key == TAG:
                return self._pairs(values, depth)
            kind = type(value)
            if kind in _AS_IT_IS or (kind is int and _SMALLEST_PLAIN <= value <= _LARGEST_PLAIN):  # type: ignore[operator]
                tree[key] = value
                continue
            try:
                tree[key] = self._value(value, depth + 1)
            except Refused as refused:
                refused.steps.append(step(key))
                raise
        return tree

    def _pairs(self, values: Mapping[Any, object], depth: int) -> dict[str, object]:
        pairs: list[object] = []
        for key, value in values.items():
            try:
                stored_key = self._value(key, depth + 1)
            except Refused as refused:
                refused.steps.append(" (a key)")
                raise
            try:
                pairs.append([stored_key, self._value(value, depth + 1)])
            except Refused as refused:
                refused.steps.append(step(key))
                raise
        return {TAG: "dict", VALUE: pairs}

    def _elements(self, values: Iterable[object], depth: int) -> list[object]:
        try:
            return self._list(values, depth)
        except Refused as refused:
            if refused.steps:
                refused.steps[-1] = " (an element)"  # a set has no positions
            raise

    def _encoder_of(self, kind: Kind) -> _Encoder:
        def encode(value: object, depth: int) -> object:
            if depth > MAX_DEPTH:  # an adapter may answer with a value of its own type, for ever
                raise Refused(_TOO_DEEP)
            try:
                parts = kind.take_apart(value)
            except (Refused, RecursionError, MemoryError):
                raise
            except Exception as error:
                raise Refused(f"the encoder for {kind.name!r} failed: {in_short(error)}") from error
            return {TAG: kind.name, VALUE: self._value(parts, depth + 1)}

        return encode

    # Decoding.

    def decode(self, data: bytes | str) -> Any:
        """Return the value that `encode` was given. Raises `SerializationError` for any bytes it cannot read.

        Text is read as well: a SQLite shell leaves it in a row that was edited there.
        """
        try:
            text = (data if isinstance(data, str) else str(data, "utf-8")).strip(" \t\r\n")
            decoder = self._tagged_decoder if _TAG_IN_TEXT in text else _plain_decoder
            value, end = decoder.raw_decode(text)
            if end != len(text):
                raise ValueError(f"there is more after the value, from character {end}")
            if text.count("[") + text.count("{") > _SURELY_SHALLOW and is_deep(value, MAX_DEPTH + _AROUND_ARGUMENTS):
                raise ValueError(f"it is nested more than {MAX_DEPTH} levels deep")
            return value
        except (SerializationError, MemoryError):
            raise
        except Exception as error:
            raise SerializationError(f"The stored payload cannot be decoded, {in_short(error)}") from error

    def decode_call(self, data: bytes | str) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments as `encode_call` was given them."""
        return as_call(self.decode(data))

    def _untagged(self, found: dict[str, Any]) -> object:
        if TAG not in found:
            return found
        name = found[TAG]
        if type(name) is not str or len(found) != 2 or VALUE not in found:
            raise SerializationError(f'The stored payload has a malformed tag: "{TAG}" needs a name and a "{VALUE}".')
        build = self._builders.get(name)
        if build is None:
            raise SerializationError(
                f"The stored payload has a value tagged {storable(name, 100)!r}, and nothing is registered here under "
                "that name. Register its type with codec.register_dataclass, codec.register_enum or "
                "codec.register_type, in a module that every process loads which enqueues or runs the task."
            )
        try:
            return build(found[VALUE])
        except (RecursionError, MemoryError):
            raise
        except Exception as error:
            raise SerializationError(f"The value tagged {name!r} cannot be built again, {in_short(error)}") from error


def _as_it_is(value: object, depth: int) -> object:
    return value


def _int(value: int, depth: int) -> object:
    if _SMALLEST_PLAIN <= value <= _LARGEST_PLAIN:
        return value
    return {TAG: "int", VALUE: int_apart(value)}


def _float(value: float, depth: int) -> object:
    if value - value == 0.0:  # neither infinite nor NaN
        return value
    return {TAG: "float", VALUE: repr(value)}


def _place(cls: type[Any]) -> tuple[str, str]:
    return cls.__module__, cls.__qualname__
