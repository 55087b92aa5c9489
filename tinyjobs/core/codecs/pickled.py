"""The codec behind a gate: pickle, for payloads that resist everything else.

Reading a pickle runs whatever its writer put there, so whoever can write a job's row can run code in every worker.
`registry` hands this codec out only where that was asked for.
"""

import pickle
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tinyjobs.core.codecs.base import as_call
from tinyjobs.core.codecs.refusals import in_short
from tinyjobs.core.errors import SerializationError

# Fixed, so that processes on different releases of Python read each other's rows.
_PROTOCOL: Final = 5


class PickleCodec:
    """Anything pickle takes. Unlike the default codec it ties the payload to the code that wrote it."""

    name: Final = "pickle"

    def encode(self, value: object, *, root: str = "value") -> bytes:
        """Return `value` pickled. Pickle does not say where the culprit is, so errors name only `root`."""
        try:
            return pickle.dumps(value, protocol=_PROTOCOL)
        except MemoryError:
            raise
        except Exception as error:
            raise SerializationError(f"{root}: it cannot be pickled, {in_short(error)}") from error

    def decode(self, data: bytes) -> Any:
        """Return what was pickled; this runs what the writer of `data` put there."""
        try:
            return pickle.loads(data)
        except MemoryError:
            raise
        except Exception as error:
            raise SerializationError(f"The stored payload cannot be unpickled, {in_short(error)}") from error

    def encode_call(self, args: Sequence[object], kwargs: Mapping[str, object]) -> bytes:
        """Return the arguments of one call pickled together; the first one that fails is named."""
        if not all(type(name) is str for name in kwargs):
            raise SerializationError("kwargs: the name of a keyword argument must be text")
        try:
            return self.encode((tuple(args), dict(kwargs)), root="args or kwargs")
        except SerializationError:
            for position, value in enumerate(args):
                self.encode(value, root=f"args[{position}]")
            for name, value in kwargs.items():
                self.encode(value, root=f'kwargs["{name}"]')
            raise

    def decode_call(self, data: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments as `encode_call` was given them."""
        return as_call(self.decode(data))
