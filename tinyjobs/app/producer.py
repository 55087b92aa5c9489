"""From a call to a stored job: the one way by which tasks and `send` bring jobs into the app's store."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tinyjobs.app.results import JobHandle, Source
from tinyjobs.core.errors import SerializationError, UnsupportedCapabilityError
from tinyjobs.core.expiry import expiry_fields, refuse_hopeless
from tinyjobs.core.ids import IdSource
from tinyjobs.core.job import Job
from tinyjobs.core.options import JobOptions, TaskOptions
from tinyjobs.core.signature import CallCheck
from tinyjobs.operations.telemetry import sending

#: The arguments of one job of many: positional ones as a tuple or list, or keyword ones as a mapping.
type Arguments = tuple[Any, ...] | list[Any] | Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What the jobs of one enqueue have in common.

    `check` is None where no signature is known. `source` begins error messages; `instead` names the awaitable for a
    blocking call made inside an event loop. `tx`: the connection of the caller's in whose transaction they are kept.
    """

    task: str
    options: TaskOptions
    overrides: JobOptions
    check: CallCheck | None
    source: str
    instead: str
    tx: object | None = None


class RunsAtOnce(Protocol):
    """What runs jobs as soon as they are kept: see `Eager`."""

    def refuse_closing(self) -> None:
        """Raise once the app is being closed."""
        ...

    def run(self, jobs: Sequence[JobHandle]) -> None:
        """Run each that is new, from a thread."""
        ...

    async def arun(self, jobs: Sequence[JobHandle]) -> None:
        """Run each that is new, from an event loop."""
        ...


class Producer:
    """Makes jobs and hands them to the store."""

    def __init__(self, source: Source, where: str, eager: RunsAtOnce | None) -> None:
        self.codecs = source.codecs
        self.clock = source.clock
        self._source = source
        self._access = source.access
        self._where = where
        self._eager = eager
        self._ids = IdSource()

    def renew_after_fork(self) -> None:
        """Begin anew with ids, in a forked child."""
        self._ids = IdSource()

    def enqueue(self, recipe: Recipe, args: Sequence[Any], kwargs: Mapping[str, Any]) -> JobHandle:
        """Keep one job, from a thread."""
        with sending([self.make(recipe, args, kwargs)]) as (job,):
            kept = self._source.handle(self._access.run(recipe.instead, lambda store: store.enqueue(job), recipe.tx))
        if self._eager is not None:
            self._eager.run([kept])
        return kept

    async def aenqueue(self, recipe: Recipe, args: Sequence[Any], kwargs: Mapping[str, Any]) -> JobHandle:
        """Keep one job, from an event loop."""
        with sending([self.make(recipe, args, kwargs)]) as (job,):
            kept = self._source.handle(await self._access.arun(lambda store: store.enqueue(job), recipe.tx))
        if self._eager is not None:
            await self._eager.arun([kept])
        return kept

    def send(self, recipe: Recipe, args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> JobHandle:
        """Keep one job whose arguments were handed in as values, from a thread."""
        return self.enqueue(recipe, *_as_values(recipe, args, kwargs))

    async def asend(self, recipe: Recipe, args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> JobHandle:
        """Keep one job whose arguments were handed in as values, from an event loop."""
        return await self.aenqueue(recipe, *_as_values(recipe, args, kwargs))

    def enqueue_many(self, recipe: Recipe, items: Iterable[Arguments]) -> list[JobHandle]:
        """Keep all of them or none, from a thread."""
        with sending(self._jobs(recipe, items)) as jobs:
            answer = self._access.run(recipe.instead, lambda store: store.enqueue_many(jobs), recipe.tx)
        kept = self._source.handles(answer)
        if self._eager is not None:
            self._eager.run(kept)
        return kept

    async def aenqueue_many(self, recipe: Recipe, items: Iterable[Arguments]) -> list[JobHandle]:
        """Keep all of them or none, from an event loop."""
        with sending(self._jobs(recipe, items)) as jobs:
            answer = await self._access.arun(lambda store: store.enqueue_many(jobs), recipe.tx)
        kept = self._source.handles(answer)
        if self._eager is not None:
            await self._eager.arun(kept)
        return kept

    def make(self, recipe: Recipe, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Job:
        """The job for one call, not yet kept."""
        now = self.clock.now()
        payload = self._payload(recipe, args, kwargs)
        return self._made(recipe, self._ids.make(now), now, payload)

    def _jobs(self, recipe: Recipe, items: Iterable[Arguments]) -> list[Job]:
        now = self.clock.now()
        payloads = [self._item_payload(recipe, place, item) for place, item in enumerate(items)]
        ids = self._ids.make_many(now, len(payloads))
        return [self._made(recipe, job_id, now, payload) for job_id, payload in zip(ids, payloads, strict=True)]

    def _item_payload(self, recipe: Recipe, place: int, item: Arguments) -> bytes:
        try:
            if isinstance(item, tuple | list):
                return self._payload(recipe, item, {})
            if isinstance(item, Mapping):
                return self._payload(recipe, (), item)
            raise TypeError(
                f"a {type(item).__name__} is neither a tuple of positional arguments nor a mapping of keyword ones; "
                f"a single argument is written (value,)."
            )
        except (TypeError, SerializationError) as error:
            raise type(error)(f"item {place} of enqueue_many: {error}") from error

    def _payload(self, recipe: Recipe, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
        if recipe.check is not None:
            recipe.check(args, kwargs)
        codec = self.codecs.require(recipe.overrides.codec or recipe.options.codec, recipe.source)
        return codec.encode_call(args, kwargs)

    def _made(self, recipe: Recipe, job_id: str, now: float, payload: bytes) -> Job:
        options, overrides = recipe.options, recipe.overrides
        expiry = expiry_fields(overrides.expires, options.expires, now)
        job = Job(
            id=job_id,
            task=recipe.task,
            queue=options.queue if overrides.queue is None else overrides.queue,
            priority=options.priority if overrides.priority is None else overrides.priority,
            max_attempts=options.max_attempts if overrides.max_attempts is None else overrides.max_attempts,
            run_at=now if overrides.run_at is None else overrides.run_at,
            # A store with a clock of its own counts from there: this process's may be wrong.
            delay=0.0 if overrides.run_at is None else overrides.delay,
            created_at=now,
            key=overrides.key,
            codec=overrides.codec or options.codec,
            payload=payload,
            **expiry,
        )
        refuse_hopeless(job.run_at, job.expires_at, now, recipe.source, job.delay)
        self._refuse_beyond_the_store(job, now, recipe)
        return job

    def _refuse_beyond_the_store(self, job: Job, now: float, recipe: Recipe) -> None:
        """What the store cannot keep is an error now, not a job that runs otherwise than asked."""
        can, source = self._access.current.store.capabilities, recipe.source
        if self._eager is not None:
            self._eager.refuse_closing()
            if recipe.tx is not None:
                raise UnsupportedCapabilityError(
                    f"{source}: tx= and eager mode do not go together: the job would run before your transaction could "
                    f"commit. Leave tx= out, or make the app without eager=True and drain() it after the commit."
                )
        if recipe.tx is not None and not can.transactional_enqueue:
            raise UnsupportedCapabilityError(
                f"{source}: {self._where} cannot write jobs in a transaction of yours (tx=), since it is not the "
                f"database of your own tables. Leave tx= out and enqueue after the commit, or keep the jobs with them, "
                f"in Postgres or in a SQLite file."
            )
        if job.key is not None and not can.dedup:
            raise UnsupportedCapabilityError(f"{source}: this store keeps no keys, so key= cannot hold off duplicates.")
        if job.run_at > now and not can.delayed:
            raise UnsupportedCapabilityError(f"{source}: this store cannot keep a job for later.")
        if job.priority and not can.priority:
            raise UnsupportedCapabilityError(f"{source}: this store knows no priorities.")
        size = len(job.payload or b"")
        if can.max_payload_bytes is not None and size > can.max_payload_bytes:
            raise SerializationError(
                f"{source}: the arguments take {size} bytes, and this store keeps {can.max_payload_bytes} at most. "
                f"Store the data elsewhere and pass its key."
            )


def _as_values(
    recipe: Recipe, args: object, kwargs: Mapping[str, Any] | None
) -> tuple[Sequence[Any], Mapping[str, Any]]:
    # A text would pass for a sequence of letters, and a single value for nothing at all.
    if not isinstance(args, tuple | list):
        raise TypeError(f"{recipe.source}: args is a {type(args).__name__}; one argument is written args=(value,).")
    if not isinstance(kwargs, Mapping | None):
        raise TypeError(f"{recipe.source}: kwargs is a {type(kwargs).__name__}, not a mapping of names to values.")
    return args, kwargs or {}
