"""A script's call as the verbs make it: its header, the clock that decides, and the link it goes by.

Knows no verb and no driver.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tinyjobs.backends.redis.link import Link, load_script
from tinyjobs.backends.redis.rows import as_json
from tinyjobs.backends.time import StoreTime


@dataclass(frozen=True, slots=True)
class Caller:
    """Calls the scripts of one store. `tag` is the prefix of its keys, in braces."""

    link: Link
    tag: str
    time: StoreTime

    def on(self, link: Link) -> "Caller":
        """The same store by another link."""
        return replace(self, link=link)

    async def __call__(self, script: str, blobs: Sequence[bytes] = (), /, **header: Any) -> Any:
        """Run `lua/<script>.lua` with a header, of which what is None is left out, and with bytes beside it."""
        now = self.time.now()
        if now is None:
            header["told"] = repr(self.time.told())
        else:
            header["now"] = repr(now)
        given = {key: value for key, value in header.items() if value is not None}
        return await self.link.run(load_script(script), [self.tag], [as_json(given), *blobs])

    def on_callers_clock(self, instant: bytes, present: bytes) -> float | None:
        """An instant of the store's as the caller's clock will show it; None for an empty one."""
        if not instant:
            return None
        if self.time.now() is not None:
            return float(instant)
        return self.time.on_callers_clock(float(instant), float(present))
