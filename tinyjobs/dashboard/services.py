"""One alias's store and tasks as the pages and actions use them: a `Desk`, made for each request.

It is a command's target with a mask and a budget. The reads of a page run together, by `reading`, so that a store that
does not answer costs one budget and not one for each; actions run as they are, since a write that is cut short could
still land.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from django.db import connections, transaction
from django.tasks.exceptions import InvalidTaskBackend

from tinyjobs.backends.base import Backend, Capabilities
from tinyjobs.core.errors import ConfigurationError
from tinyjobs.core.masking import Mask, Veil
from tinyjobs.core.watching import Finding
from tinyjobs.dashboard import deadlines
from tinyjobs.dashboard.deadlines import cut_off_after, within_thread
from tinyjobs.taskbackend.backend import backend_of, our_backends

if TYPE_CHECKING:
    from tinyjobs.cli.target import Target

logger = logging.getLogger("tinyjobs.dashboard")

# Catalogues whose tasks modules were imported. What failed to import then is known to their timetables.
_discovered: WeakKeyDictionary[Any, None] = WeakKeyDictionary()


@dataclass(frozen=True, kw_only=True)
class Desk:
    """What pages and actions work on. `database` is the alias of the Django database that jobs are in, if any.

    `is_networked`: the store has connections of its own to a server. `of_project` tells what a check finds beside the
    store.
    """

    alias: str
    target: "Target"
    mask: Mask
    database: str | None = None
    is_networked: bool = False
    of_project: Callable[[], Iterable[Finding]] = tuple
    budget: float = field(default_factory=lambda: deadlines.BUDGET)

    @property
    def store(self) -> Backend:
        """The store, for calls in this thread."""
        return self.target.store

    @property
    def capabilities(self) -> Capabilities:
        """What the store can do."""
        return self.store.capabilities

    def reading[T](self, read: Callable[[], T]) -> T:
        """Run the reads of a page. Raises `StoreUnavailableError` once the budget is spent."""
        if self.database is not None:
            with cut_off_after(self.database, self.target.where, self.budget):
                return read()
        if not self.is_networked:
            return read()  # one in this process or in a file waits for nobody
        return within_thread(read, self.target.where, self.budget)

    def changing(self) -> AbstractContextManager[None]:
        """Around one change: a savepoint where the request has a transaction open, so that an error does not end it."""
        if self.database is None or not connections[self.database].in_atomic_block:
            return nullcontext()
        return transaction.atomic(using=self.database)

    def is_undone(self) -> bool:
        """Whether what was changed cannot stay: an error has ended the transaction that the request has open."""
        if self.database is None:
            return False
        connection = connections[self.database]
        return connection.in_atomic_block and connection.needs_rollback

    def now(self) -> float:
        """This moment by the program's clock, in unix seconds."""
        return self.store.clock.now()

    def veil(self) -> Veil:
        """For one look at values that people may not see whole."""
        return Veil(self.mask)

    def task_names(self) -> Collection[str]:
        """The tasks known here, in order."""
        return sorted(self.target.catalogue.names())

    def queue_names(self) -> Collection[str]:
        """The queues that tasks and settings name, in order."""
        return sorted(self.target.declared_queues())

    def learn_tasks(self) -> None:
        """Import the tasks modules of the program, once a process. What is wrong with them is logged."""
        catalogue = self.target.catalogue
        if catalogue in _discovered:
            return
        try:
            for module, error in self.target.discover(()).items():
                logger.warning("%s cannot be imported: %s: %s", module, type(error).__name__, error)
        except ConfigurationError as error:
            logger.warning("%s", error)
        _discovered[catalogue] = None


type Desks = Callable[[], Mapping[str, Callable[[], Desk]]]


def alias_desks() -> Mapping[str, Callable[[], Desk]]:
    """A way to a desk for each alias of `TASKS` that is ours, in the order of the settings."""
    return {alias: _maker(alias) for alias in our_backends()}


def _maker(alias: str) -> Callable[[], Desk]:
    return lambda: desk_of(alias)


def desk_of(alias: str) -> Desk:
    """The desk of an alias. Raises `ConfigurationError` for one whose settings are wrong."""
    # They bring in the worker, which other pages can do without.
    from tinyjobs.management.target import AliasTarget
    from tinyjobs.taskbackend.checking import of_project

    try:
        shared = backend_of(alias).shared
    except InvalidTaskBackend as error:
        raise ConfigurationError(str(error)) from error
    settings = shared.settings
    desk = Desk(
        alias=alias,
        target=AliasTarget(alias),
        mask=settings.mask,
        database=settings.database,
        is_networked=settings.database is None and shared.home.capabilities.loop_bound,
        of_project=lambda: of_project(shared),
    )
    desk.learn_tasks()
    return desk
