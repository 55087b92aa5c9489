"""The way from one process to the store: slow, and at times cut, before a call arrives or before its answer does.

Every call takes place at one instant, in the store; there it is entered in the book, also where its answer is lost or
its caller is dead by the time it comes.
"""

import asyncio
import inspect
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.simulation.book import Book, Broken
from tinyjobs.backends.schedules import unsupported
from tinyjobs.core.errors import StoreUnavailableError
from tinyjobs.core.inline import finish


@dataclass(slots=True)
class Weather:
    """How the way to the store is, for everybody. Probabilities from 0 to 1, `latency` in seconds at most."""

    latency: float = 0.0
    refused: float = 0.0
    unanswered: float = 0.0
    is_out: bool = False

    def calm_down(self) -> None:
        self.latency = self.refused = self.unanswered = 0.0
        self.is_out = False


class Link:
    """A store as one process has it: see `Backend`."""

    def __init__(self, store: Any, book: Book, weather: Weather, dice: Random, *, wakes: bool) -> None:
        self._store = store
        self._book = book
        self._weather = weather
        self._dice = dice
        self._wakes = wakes

    def inline(self) -> "_InlineLink":
        return _InlineLink(self)

    def hurry(self, deadline: float | None) -> None:
        """The lock is never waited for here."""

    def record_now(self, outcomes: Any, request: Any) -> Any:
        """Never at once: there is a way to go."""
        return None

    async def wait_for_jobs(self, timeout: float, queues: Any = ()) -> bool:
        if not self._wakes:
            raise unsupported(self._store, "wake-ups")
        return await self._store.wait_for_jobs(timeout, queues)

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._store, name)
        if not inspect.iscoroutinefunction(verb):
            return verb

        async def travel(*args: Any, **kwargs: Any) -> Any:
            await self._pause()
            self.meet(self._weather.refused)
            answer = await verb(*args, **kwargs)
            self.enter(name, args, kwargs, answer)
            await self._pause()
            self.meet(self._weather.unanswered)
            return answer

        setattr(self, name, travel)
        return travel

    async def _pause(self) -> None:
        if self._weather.latency:
            await asyncio.sleep(self._dice.random() * self._weather.latency)

    def meet(self, chance: float) -> None:
        """Be cut off, with that chance."""
        if self._weather.is_out or (chance and self._dice.random() < chance):
            raise StoreUnavailableError("The store is out of reach in this world.")

    def enter(self, verb: str, args: tuple[Any, ...], kwargs: dict[str, Any], answer: Any) -> None:
        """Tell the book. What it finds is kept there as well: whoever called may take it for trouble of the store's."""
        try:
            self._tell(self._book, verb, args, kwargs, answer)
        except Broken as error:
            self._book.failed(error)
            raise

    def _tell(self, book: Book, verb: str, args: tuple[Any, ...], kwargs: dict[str, Any], answer: Any) -> None:
        match verb:
            case "enqueue":
                book.sent([args[0]], [answer])
            case "enqueue_many":
                book.sent(args[0], answer)
            case "record":
                request = args[1] if len(args) > 1 else kwargs.get("request")
                book.recorded(args[0], answer)
                if request is not None:
                    book.claimed(answer.claimed.jobs, request.worker_id, request.lease)
            case "claim":
                book.claimed(answer.jobs, args[0].worker_id, args[0].lease)
            case "heartbeat":
                book.renewed(args[0], answer, args[1])
            case "reap_expired":
                book.taken_back(answer)
            case "end_unstarted":
                book.ended_unstarted(answer)
            case "cancel":
                book.cancelled(args[0], answer)
            case "requeue":
                book.retried(args[0], answer)
            case "delete":
                book.deleted(args[0], answer)
            case "schedules":
                book.registered([(state.name, state.next_run_at) for state in answer])
            case "fire_schedules":
                book.moved(args[0], answer)


class _InlineLink:
    """The same for whoever cannot wait: there and back at once, if it gets there."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def __getattr__(self, name: str) -> Any:
        link = self._link
        verb = getattr(link._store.inline(), name)

        async def travel(*args: Any, **kwargs: Any) -> Any:
            link.meet(link._weather.refused)
            answer = finish(verb(*args, **kwargs))
            link.enter(name, args, kwargs, answer)
            link.meet(link._weather.unanswered)
            return answer

        return travel
