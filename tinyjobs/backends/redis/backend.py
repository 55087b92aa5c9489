"""The Redis store: its faces, how it is opened, claims whose answer was lost, and how idle workers wake.

`redis://host:6379/0`, `rediss://…` or `unix:///path`. Every change is one script, which the server runs without
anything in between. The async face is bound to the event loop it is first used on; `inline()` serves threads.
"""

import copy
import json
import logging
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Any, Self

from tinyjobs.backends.base import Capabilities
from tinyjobs.backends.grouping import record_group
from tinyjobs.backends.marks import check_version, is_ours, new_marks
from tinyjobs.backends.redis import consume, produce
from tinyjobs.backends.redis.calls import Caller
from tinyjobs.backends.redis.clients import settings_of
from tinyjobs.backends.redis.link import Link
from tinyjobs.backends.redis.listener import Listener
from tinyjobs.backends.redis.looplink import LoopLink
from tinyjobs.backends.redis.options import Address, RedisOptions, parse_url
from tinyjobs.backends.redis.rows import paired
from tinyjobs.backends.redis.server import check_server
from tinyjobs.backends.redis.source import Source
from tinyjobs.backends.redis.threadlink import ThreadLink
from tinyjobs.backends.redis.verbs import ScriptVerbs
from tinyjobs.backends.time import StoreTime
from tinyjobs.backends.waiters import Waiters
from tinyjobs.core.clock import Clock, SystemClock
from tinyjobs.core.errors import ConfigurationError, DataRefusedError, SchemaMissingError, StoreError
from tinyjobs.core.job import Claimed, ClaimRequest, Held, Job, Recorded
from tinyjobs.core.transitions import Outcome, handed_back
from tinyjobs.core.url import shown_url

logger = logging.getLogger("tinyjobs.store")

# A value has 512 MB at most, and a script's answer has to hold several.
_LARGEST = 500_000_000
# How long the last look for lost claims may take.
_SWEEP = 1.0
# Keys of which a store that is in use has one; the last is that of the older package.
_SIGNS = ("meta", "workers", "index:all", "schedules", "schema_version")


class RedisBackend(ScriptVerbs):
    """Jobs in a Redis server. `address` says anew for each connection where that is."""

    capabilities = Capabilities(
        dedup=True,
        schedules=True,
        retention=True,
        result_ttl=True,
        loop_bound=True,
        max_payload_bytes=_LARGEST,
        delete=True,
        workers_seen=True,
        tallies=True,
        search=True,
    )

    def __init__(
        self,
        address: Callable[[], Address],
        *,
        where: str,
        clock: Clock | None = None,
        options: RedisOptions | None = None,
    ) -> None:
        super().__init__(clock=clock)
        self.where = where
        self.options = options = options or RedisOptions()
        self._source = Source(address=address, options=options, where=where, clock=clock or SystemClock())
        self._own = LoopLink(self._source)
        self._threads = ThreadLink(self._source)
        self._call = Caller(self._own, options.tag, StoreTime(self.clock, by_server=True))
        self._waiters = Waiters()
        self._listener: Listener | None = None
        # Claims whose answer was lost: the worker, by the token. Shared with the twin for threads.
        self._lost: dict[str, str] = {}

    @classmethod
    def from_url(cls, url: str, *, clock: Clock, **options: Any) -> Self:
        """A store from its URL; options may stand in the URL's query as well.

        `client`, a client of the driver's beside a bare `redis://`, says where the server is and how one gets in. Its
        settings are read; its connections stay its own.
        """
        client = options.pop("client", None)
        if client is None:
            address, parsed = parse_url(url, options)
            return cls(lambda: address, where=shown_url(url), clock=clock, options=parsed)
        if url.partition("://")[2]:
            raise ConfigurationError(
                f"The store URL {shown_url(url)!r} and client= both say where the server is. Beside a client write "
                f"'redis://' alone."
            )
        address, parsed, where = settings_of(client, options)
        return cls(lambda: address, where=where, clock=clock, options=parsed)

    @property
    def time(self) -> StoreTime:
        """Whose clock decides."""
        return self._call.time

    # --- life ---------------------------------------------------------------------------------------------------

    async def setup(self) -> None:
        """Write the marks of the layout, or check those that are there, and look at how the server is set up."""
        await check_server(self._call.link, self.where)
        is_foreign, found = await self._call("setup", meta=new_marks())
        marks = paired(json.loads(found))
        if is_foreign or not is_ours(marks):
            raise ConfigurationError(
                f"{self.where} holds keys under {self.options.tag} that this package did not write; an older package "
                f"named tinyjobs uses the same names with other contents. Give this store another database, or "
                f"another prefix=."
            )
        check_version(marks, self.where)

    async def check_layout(self) -> None:
        """One command. A server that was emptied under workers which go on soon has keys of theirs again."""
        names = (f"{self.options.tag}:{name}" for name in _SIGNS)
        if not await self._call.link.command("EXISTS", *names):
            raise SchemaMissingError(f"{self.where} holds no keys of tinyjobs under {self.options.tag}.")

    def inline(self) -> Self:
        """The twin for synchronous callers: a connection of the threads' pool for each call, nothing suspends."""
        return self._on(self._threads)

    def apart(self) -> Self:
        """The same store with connections of its own, for another event loop."""
        other = type(self)(self._source.address, where=self.where, clock=self.clock, options=self.options)
        other._waiters = self._waiters
        return other

    def hurry(self, deadline: float | None) -> None:
        """End every wait by `deadline` (monotonic seconds), for a connection and for an answer; None: as usual."""
        self._source.deadline = deadline
        self._own.hurry()
        self._threads.hurry()

    async def close(self) -> None:
        """Close every connection, also the threads'. What claims took whose answers were lost is given back before."""
        if self._lost:
            self.hurry(self.clock.monotonic() + _SWEEP)
            with suppress(StoreError):
                await self._recover()
        listener, self._listener = self._listener, None
        if listener is not None:
            await listener.close()
        self._waiters.nudge()
        await self._own.close()
        await self._threads.close()

    # --- waking -------------------------------------------------------------------------------------------------

    async def wait_for_jobs(self, timeout: float, queues: Sequence[str] = ()) -> bool:
        """Wait for a nudge or a message. What came since the same task waited last counts as well.

        Raises `StoreUnavailableError` once when the connection that listens is lost.
        """
        waiter = self._waiters.mine(queues)
        if not self.options.notify:
            return await waiter.told(timeout)
        if self._listener is None or not self._listener.is_usable:
            channel = f"{self.options.tag}:{self._channel()}"
            self._listener = Listener(self._source, self._waiters, channel, self._call.link)
        return await self._listener.wait(waiter, timeout)

    def _channel(self) -> str:
        """What wake-ups are published on, without the prefix: a server's databases have their channels in common."""
        number = self._source.address().keywords.get("db") or 0
        return f"wake:{number}" if number else "wake"

    def can_wake(self) -> bool:
        """Whether messages arrive, as far as is known. One that is lost is found out by the next check."""
        return self._listener is not None and self._listener.hears

    def claims_freely(self) -> bool:
        """One round trip either way, and no lock where nothing is found."""
        return True

    def nudge(self, queues: Collection[str] = ()) -> None:
        """Wake the workers of this process that wait on this store."""
        self._waiters.nudge(queues)

    # --- producing ----------------------------------------------------------------------------------------------

    async def enqueue(self, job: Job) -> Job:
        """One script."""
        kept = await produce.enqueue(self._call, job)
        if not kept.existing:
            self.nudge((kept.queue,))
        return kept

    async def enqueue_many(self, jobs: Sequence[Job]) -> list[Job]:
        """A script for each thousand of jobs."""
        if not jobs:
            return []
        kept = await produce.enqueue_many(self._call, jobs)
        if queues := {job.queue for job in kept if not job.existing}:
            self.nudge(queues)
        return kept

    async def holder(self, key: str) -> Job | None:
        """One script."""
        return await produce.holder(self._call, key)

    # --- consuming ----------------------------------------------------------------------------------------------

    async def claim(self, request: ClaimRequest) -> Claimed:
        """One script."""
        recorded = await self._record((), request)
        return recorded.claimed or Claimed()

    async def record(self, outcomes: Sequence[Outcome], request: ClaimRequest | None = None) -> Recorded:
        """One script; a group whose data is refused is taken apart, so one bad outcome fails alone."""
        return await record_group(self._record, outcomes, request)

    async def heartbeat(self, held: Sequence[Held], lease: float) -> Collection[Held]:
        """One script for all of them."""
        return await consume.heartbeat(self._call, held, lease) if held else []

    async def reap_expired(self, limit: int = 500, own: Callable[[], Collection[Held]] = tuple) -> list[Job]:
        """One script that reads; two or more where there are any, by how large their arguments are."""
        return await consume.reap(self._call, limit, own)

    async def next_due(self, queues: Sequence[str] = ()) -> tuple[bool, float | None]:
        """One script, which leaves a mark for whoever sends the next job."""
        return await consume.look(self._call, queues, channel=self._channel() if self.can_wake() else None)

    async def claim_job(self, job_id: str, *, worker_id: str, lease: float) -> Job | None:
        """One script."""
        if self._lost:
            await self._recover()
        token = consume.new_token()
        try:
            return await consume.claim_job(self._call, job_id, worker_id, lease, token)
        except BaseException as error:
            self._note_lost(error, worker_id, token)
            raise

    async def _record(self, outcomes: Sequence[Outcome], request: ClaimRequest | None) -> Recorded:
        if self._lost:
            await self._recover()
        if request is None:
            return await consume.record(self._call, outcomes)
        token = consume.new_token()
        try:
            return await consume.record(self._call, outcomes, request, token=token)
        except BaseException as error:
            self._note_lost(error, request.worker_id, token)
            raise

    def _note_lost(self, error: BaseException, worker_id: str, token: str) -> None:
        """The claim may have been made, or may yet be. What is refused as data was not."""
        if not isinstance(error, DataRefusedError):
            self._lost[token] = worker_id

    async def _recover(self) -> None:
        """Give back what claims took whose answers were lost: nobody here knows of it. The attempt is not used.

        A claim is forgotten once that is done, so that a sweep whose own answer is lost is made again.
        """
        for token, worker_id in list(self._lost.items()):
            jobs = await consume.claimed_by(self._call, worker_id, token)
            if jobs:
                now = self.clock.now()
                await consume.record(self._call, [handed_back(job, now) for job in jobs])
                logger.info("%s: %d jobs of a claim whose answer was lost were given back.", self.where, len(jobs))
            self._lost.pop(token, None)

    def _on(self, link: Link) -> Self:
        twin = copy.copy(self)
        twin._call = self._call.on(link)
        return twin
