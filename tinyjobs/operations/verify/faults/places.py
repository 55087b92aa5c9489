"""A store of the verifier's own, and what can be done to it: each fault by its name, with its beginning and its end."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self
from urllib.parse import quote

from tinyjobs.core.clock import Clock
from tinyjobs.core.errors import ConfigurationError
from tinyjobs.operations.verify.faults.disk import SmallDisk
from tinyjobs.operations.verify.faults.locking import WriteLock
from tinyjobs.operations.verify.faults.proxy import Proxy
from tinyjobs.operations.verify.faults.servers import PostgresServer, RedisServer, Server

#: The stores that can be started here.
STORES = ("sqlite", "postgres", "redis")
#: Each way, so four times as much for a statement inside a transaction of its own.
_LATENCY = 0.05


@dataclass(frozen=True, slots=True)
class Fault:
    """What befalls a store: `begin`, then `seconds` later `end`, both in one thread. `what` is for people."""

    name: str
    what: str
    seconds: float
    begin: Callable[[], None]
    end: Callable[[], None]


class Place(ABC):
    """A store for the length of a `with` block. `absent` names faults that cannot be had here, and why."""

    url: str

    def __init__(self) -> None:
        self._stack = ExitStack()
        self.absent: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    @abstractmethod
    def faults(self) -> Sequence[Fault]:
        """What can befall it."""


class ServerPlace(Place):
    """A server, and a proxy before it."""

    def __init__(self, server: Server) -> None:
        super().__init__()
        self._server = server
        self._stack.callback(server.close)
        self._proxy = Proxy(server.socket)
        self._stack.callback(self._proxy.close)
        self.url = server.url(self._proxy.port)

    def faults(self) -> Sequence[Fault]:
        """See `Place.faults`."""
        server, proxy = self._server, self._proxy
        return (
            Fault("restart", "the server is shut down and started again", 1.0, server.stop, server.start),
            Fault("crash", "the server is killed and started again", 1.0, server.crash, server.start),
            Fault("cut", "every connection is broken, twice", 1.0, proxy.cut, proxy.cut),
            Fault("stall", "nothing that is sent arrives, for a while", 4.0, proxy.stall, proxy.resume),
            Fault(
                "latency",
                f"everything arrives {_LATENCY * 1000:.0f} ms later",
                4.0,
                lambda: proxy.delay(_LATENCY),
                lambda: proxy.delay(0.0),
            ),
        )


class FilePlace(Place):
    """A SQLite file, on a disk of its own where this process may mount one."""

    def __init__(self) -> None:
        super().__init__()
        self._disk: SmallDisk | None = None
        try:
            self._disk = SmallDisk()
            self._stack.callback(self._disk.close)
            folder = self._disk.folder
        except ConfigurationError as error:
            self.absent["full"] = str(error)
            folder = Path(self._stack.enter_context(TemporaryDirectory(prefix="tinyjobs-disk-")))
        self._path = folder / "jobs.db"
        self.url = f"sqlite:///{quote(str(self._path))}"

    def faults(self) -> Sequence[Fault]:
        """See `Place.faults`."""
        lock = WriteLock(str(self._path))
        found = [Fault("lock", "somebody else holds the write lock", 7.0, lock.take, lock.release)]
        if self._disk is not None:
            found.append(Fault("full", "the disk is full", 4.0, self._disk.fill, self._disk.clear))
        return found


def open_place(store: str, clock: Clock) -> Place:
    """Start a store of that kind. Raises `ConfigurationError` for one that cannot be started here."""
    if store == "sqlite":
        return FilePlace()
    if store == "postgres":
        return ServerPlace(PostgresServer(clock))
    if store == "redis":
        return ServerPlace(RedisServer(clock))
    raise ConfigurationError(f"--faults: {store!r} is none of {', '.join(STORES)}.")


def chosen(place: Place, names: Sequence[str]) -> Sequence[Fault]:
    """The faults of these names, or all that there are. Raises `ConfigurationError` for one that cannot be had."""
    there = {fault.name: fault for fault in place.faults()}
    for name in names:
        if name in place.absent:
            raise ConfigurationError(f"--only {name}: {place.absent[name]}.")
        if name not in there:
            raise ConfigurationError(f"--only {name}: this store has none of that name; there are {', '.join(there)}.")
    return [there[name] for name in names] if names else list(there.values())
