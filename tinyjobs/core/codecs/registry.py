"""Finds a codec by the name a job's row keeps, and keeps pickle behind its gate.

Each app has one registry. The codec is chosen per job, so rows of both kinds may stand in one queue while a program
moves from one to the other.
"""

import logging
from typing import Final

from tinyjobs.core.codecs.base import Codec
from tinyjobs.core.codecs.pickled import PickleCodec
from tinyjobs.core.codecs.tagged import JSONCodec
from tinyjobs.core.errors import ConfigurationError, SerializationError
from tinyjobs.core.storable import storable

DEFAULT: Final = "json"

_logger = logging.getLogger("tinyjobs")


class CodecRegistry:
    """The codecs of one app. `json` is the one of a task that names none, and where the app's types are registered;
    several registries may share one.

    `refuse_pickle` shuts pickle out in both directions whatever `allow_pickle` says, for a store on a network that
    others may write to. Creating a registry that does hand pickle out logs one warning.
    """

    def __init__(
        self, *, allow_pickle: bool = False, refuse_pickle: bool = False, json: JSONCodec | None = None
    ) -> None:
        self.json: Final = json or JSONCodec()
        self._codecs: dict[str, Codec] = {DEFAULT: self.json}
        self._refuse_pickle = refuse_pickle
        if allow_pickle and not refuse_pickle:
            self._codecs["pickle"] = PickleCodec()
            _logger.warning(
                "allow_pickle is on: a worker runs whatever code is inside a pickled payload, so everyone who can "
                "write to the job store can run code in every worker. Keep the store private, and turn it off again "
                "when no task needs it."
            )

    def get(self, name: str) -> Codec:
        """Return the codec called `name`, to write or to read a payload with, or raise `SerializationError`."""
        codec = self._codecs.get(name)
        if codec is None:
            raise SerializationError(
                f"The codec {storable(str(name), 100)!r} cannot be used here: {self._reason(name)}"
            )
        return codec

    def require(self, name: str, source: str) -> Codec:
        """Like `get`, for a name that came from an option: raises `ConfigurationError` that begins with `source`."""
        codec = self._codecs.get(name)
        if codec is None:
            raise ConfigurationError(f"{source}: the codec {name!r} cannot be used here: {self._reason(name)}")
        return codec

    def _reason(self, name: str) -> str:
        if name != "pickle":
            return f"there is none of that name. There are: {', '.join(sorted(self._codecs))}."
        if self._refuse_pickle:
            return "refuse_pickle shuts pickled payloads out of this store, whatever allow_pickle says."
        return (
            "pickle is off, because reading a pickle runs code that the writer of the row chose. "
            "Set allow_pickle=True if everyone who can write to the store may run code in the workers."
        )
