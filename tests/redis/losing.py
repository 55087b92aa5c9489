"""A link that loses what a test tells it to: a request, an answer, or neither for a while."""

from collections.abc import Sequence
from typing import Any, Literal

from tinyjobs.backends.redis.backend import RedisBackend
from tinyjobs.backends.redis.link import Link, Script, Word
from tinyjobs.core.errors import StoreUnavailableError

#: The request never arrives; it is carried out and its answer is lost; it arrives when `deliver` is called.
type Loss = Literal["request", "answer", "late"]


class LosingLink:
    """Passes everything on, but for the scripts named in `losses`: each is lost once, in the way named there."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self.losses: list[tuple[str, Loss]] = []
        self.ran: list[str] = []
        self._held: list[tuple[Script, Sequence[str], Sequence[Word]]] = []

    async def run(self, script: Script, keys: Sequence[str], arguments: Sequence[Word]) -> Any:
        loss: Loss | None = None
        if self.losses and self.losses[0][0] == script.name:
            loss = self.losses.pop(0)[1]
        self.ran.append(script.name)
        if loss == "request":
            raise StoreUnavailableError("the request was lost")
        if loss == "late":
            self._held.append((script, keys, arguments))
            raise StoreUnavailableError("the request is on its way")
        answer = await self._link.run(script, keys, arguments)
        if loss == "answer":
            raise StoreUnavailableError("the answer was lost")
        return answer

    async def command(self, *words: Word) -> Any:
        return await self._link.command(*words)

    async def deliver(self) -> None:
        """Let what was on its way arrive; nobody hears the answers."""
        held, self._held = self._held, []
        for parts in held:
            await self._link.run(*parts)

    async def close(self) -> None:
        await self._link.close()


def losing(store: RedisBackend) -> tuple[RedisBackend, LosingLink]:
    """The store's twin for threads on such a link."""
    twin = store.inline()
    link = LosingLink(twin._call.link)
    twin._call = twin._call.on(link)
    return twin, link
