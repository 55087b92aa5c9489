"""What a worker of the harness is told by its environment, which alone holds the URL: it may have a password in it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tinyjobs.core.errors import ConfigurationError

PREFIX = "TINYJOBS_VERIFY_"
_URL, _OPTIONS, _LEDGER, _TOKEN = (PREFIX + name for name in ("URL", "OPTIONS", "LEDGER", "TOKEN"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The store, the ledger, and the token that tells this worker from its successors, whose pid may be the same."""

    url: str = field(repr=False)
    options: Mapping[str, Any] = field(repr=False)
    ledger: Path
    token: str

    def environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """The variables of the worker: those inherited, but for any of ours that the shell had left over."""
        kept = {name: value for name, value in inherited.items() if not name.startswith(PREFIX)}
        return kept | {
            _URL: self.url,
            _OPTIONS: json.dumps(dict(self.options)),
            _LEDGER: str(self.ledger),
            _TOKEN: self.token,
        }

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> "Surroundings":
        """Of this process. Raises `ConfigurationError` where no verifier has started it."""
        try:
            return cls(
                url=environment[_URL],
                options=json.loads(environment[_OPTIONS]),
                ledger=Path(environment[_LEDGER]),
                token=environment[_TOKEN],
            )
        except KeyError as missing:
            raise ConfigurationError(
                f"{missing} is not set: this app belongs to the workers that `tinyjobs verify` starts."
            ) from None
