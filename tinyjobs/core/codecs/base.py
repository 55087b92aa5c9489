"""What a codec is.

A codec turns a value into bytes at once, so what the caller does to the value afterwards changes nothing, and bytes
into an equal value of the same types. What it cannot bring back the same it refuses with `SerializationError`; bytes
it cannot read end in `SerializationError` too, whatever they hold.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tinyjobs.core.errors import SerializationError

_TEXT = frozenset({str})


class Codec(Protocol):
    """Values to bytes and back. `name` is kept on the job's row, so that every row says how to read it."""

    @property
    def name(self) -> str:
        """The word a job's row keeps."""
        ...

    def encode(self, value: object, *, root: str = "value") -> bytes:
        """Return `value` as bytes. An error names the path to the culprit, starting with `root`."""
        ...

    def decode(self, data: bytes) -> object:
        """Return what `encode` was given."""
        ...

    def encode_call(self, args: Sequence[object], kwargs: Mapping[str, object]) -> bytes:
        """Return the arguments of one call as bytes. Paths in errors start with `args[i]` or `kwargs["name"]`."""
        ...

    def decode_call(self, data: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments as they can be called with: `function(*args, **kwargs)`."""
        ...


def as_call(value: object) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return a decoded pair as the arguments of a call, or raise `SerializationError` when it is something else."""
    if isinstance(value, list | tuple) and len(value) == 2:
        args, kwargs = value
        if isinstance(args, list | tuple) and isinstance(kwargs, dict) and _TEXT.issuperset(map(type, kwargs)):
            return tuple(args), kwargs
    raise SerializationError(
        "The stored payload is not the arguments of a call: it should hold a list of positional arguments and an "
        "object of keyword arguments. It was not written by this library, or was edited since."
    )
