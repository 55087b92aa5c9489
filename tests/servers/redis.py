"""A Redis server as the tests use it: any that a URL names, private ones that they may also break, and pairs of them.

Valkey's is one too, told apart by its program. A test's child processes need nothing of this: they are given a URL.
"""

import itertools
import os
import signal
import threading
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.servers.processes import PATIENCE, ServerError, ServerProcess, free_port, reachable
from tests.servers.programs import name_and_number, redis_program
from tests.servers.proxy import Proxy

#: Names the run's server for the tests and the processes they start.
URL_VARIABLE = "TINYJOBS_TEST_REDIS"
#: Says in the URL's own database that tests use the one of that number. It goes by itself if they cannot take it away.
MARK = "tinyjobs-tests:database:{}"
MARK_LASTS = 3600

#: A word, several words, or none: then the line is left out.
type Setting = str | int | bool | tuple[str | int, ...] | None


class Server:
    """A server somebody runs. Databases are its numbers: empty ones are handed out, and emptied when they come back."""

    #: Whether everything on it is ours to throw away.
    is_private = False

    def __init__(self, url: str) -> None:
        self._url = url
        self._lock = threading.Lock()
        self._clients: dict[tuple[int, int], redis.Redis] = {}
        self._turn = itertools.count(os.getpid())  # so that runs beside each other begin at different numbers

    @property
    def home(self) -> int:
        """The database that the URL names."""
        parts = urlsplit(self._url)
        named = dict(parse_qsl(parts.query)).get("db") or (parts.path.strip("/") if parts.scheme != "unix" else "")
        return int(named or 0)

    def url(self, database: int | None = None) -> str:
        """The URL of a database, or of the one that the tests keep their marks in."""
        return _with_database(self._url, self.home if database is None else database)

    def client(self, database: int | None = None, **options: Any) -> redis.Redis:
        """A client of its own that answers in bytes and tries nothing twice. The caller closes it."""
        chosen: dict[str, Any] = {"retry": Retry(NoBackoff(), 0), "socket_timeout": PATIENCE, **options}
        return redis.Redis.from_url(self.url(database), **chosen)

    def execute(self, *words: str | bytes | int | float, database: int | None = None) -> Any:
        """Run one command as the server's administrator, and return what redis-py makes of the answer.

        A command of two words is one string: `execute("CLIENT KILL", "TYPE", "normal")`.
        """
        number = self.home if database is None else database
        with self._lock:
            client: Any = self._clients.get((os.getpid(), number))  # redis-py's types differ between its releases
            if client is None:
                client = self._clients[os.getpid(), number] = self.client(number)
            try:
                return client.execute_command(*words)
            except redis.ConnectionError:
                # Perhaps the server was restarted since. A client that has tried connects anew.
                client.connection_pool.disconnect()
                return client.execute_command(*words)

    def create_database(self) -> int:
        """Take a database that is empty and nobody's, and return its number."""
        try:
            count = int(self.execute("CONFIG GET", "databases")["databases"])
        except redis.ResponseError:  # one that somebody else manages
            count = 16
        for turn in itertools.islice(self._turn, count):
            number = turn % count
            if number == self.home or not self.execute("SET", MARK.format(number), "1", "NX", "EX", MARK_LASTS):
                continue
            if self.is_private:
                self.execute("FLUSHDB", database=number)
            if not self.execute("DBSIZE", database=number):
                return number
            self.execute("DEL", MARK.format(number))
        raise ServerError(f"none of the {count} databases there is empty and free: {_without_password(self._url)}")

    def drop_database(self, number: int) -> None:
        """Empty a database that `create_database` has given, and give it back."""
        self.execute("FLUSHDB", database=number)
        self.execute("DEL", MARK.format(number))

    def drop_clients(self) -> int:
        """Close the connection of every client but ours, subscribers included. Returns how many there were."""
        kinds = ("normal", "pubsub")
        return sum(int(self.execute("CLIENT KILL", "TYPE", kind, "SKIPME", "yes")) for kind in kinds)

    def version(self) -> tuple[str, str]:
        """The name and the number of the server's program, such as `redis` and `7.0.15`."""
        said = self.execute("INFO", "server")
        valkey = said.get("valkey_version")
        return ("valkey", str(valkey)) if valkey else ("redis", str(said["redis_version"]))

    def close(self) -> None:
        """Leave the server as it was found."""
        self._hang_up()

    def _hang_up(self) -> None:
        for (opened_by, _), client in list(self._clients.items()):
            if opened_by == os.getpid():
                client.close()
        self._clients.clear()


class RedisServer(Server):
    """A private server on 127.0.0.1, started when it is made: may be stopped, killed, restarted on the same port.

    Settings are those of redis.conf, with underscores: `appendonly=False`, `maxmemory="3mb"`, `requirepass="secret"`,
    `replicaof=another`. It has an append-only file unless told otherwise. What was answered is in the kernel's hands by
    then, so killing the server loses nothing of it.
    """

    is_private = True
    _host = "127.0.0.1"

    def __init__(
        self, *, program: Path | None = None, replicaof: "RedisServer | None" = None, **settings: Setting
    ) -> None:
        found = program or redis_program()
        self._program = reachable(found.parent) / found.name
        self._process = ServerProcess("tinyjobs-redis-", in_memory=True)
        try:
            self.port = free_port()
            password = settings.get("requirepass")
            login = f":{quote(str(password), safe='')}@" if password else ""
            super().__init__(f"redis://{login}127.0.0.1:{self.port}/0")
            self.settings: dict[str, Setting] = {**self._defaults(), **settings}
            self.follow(replicaof)
            self.start()
        except BaseException:
            self._process.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def folder(self) -> Path:
        """Holds the files of the data, the log and the socket. Gone when the server is closed."""
        return self._process.folder

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_running(self) -> bool:
        return self._process.is_running()

    def socket_url(self, database: int = 0) -> str:
        """As `url`, by way of the Unix socket."""
        login = urlsplit(self._url).netloc.rpartition("@")[0]
        return f"unix://{f'{login}@' if login else ''}{self._socket}?db={database}"

    def log(self) -> str:
        """What the server has written since its last start."""
        return self._process.written()

    def flush(self) -> None:
        """Forget all that it holds."""
        self.execute("FLUSHALL")

    def start(self) -> None:
        """Start it and wait until it has loaded its data and answers."""
        self._configuration.unlink(missing_ok=True)
        given = {name.replace("_", "-"): value for name, value in self.settings.items() if value is not None}
        self._configuration.write_text("".join(f"{name} {_written(value)}\n" for name, value in given.items()))
        self._process.own(self._configuration)
        self._process.launch([self._program, self._configuration])
        self._process.wait_until(self._is_ready, "starting Redis")

    def stop(self) -> None:
        """Shut down as an administrator would: what it has to write to its files it writes."""
        self._hang_up()
        self._process.end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL it."""
        self._hang_up()
        self._process.end(signal.SIGKILL)

    def restart(self) -> None:
        self.stop()
        self.start()

    def pause(self) -> None:
        """Freeze it: connections stay, new ones are accepted by the kernel, and nothing is answered."""
        self._process.send(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send(signal.SIGCONT)

    def follow(self, primary: "RedisServer | None") -> None:
        """Be a replica of another server, or of none: at once if it runs, and from its next start on."""
        address = (primary._host, primary.port) if primary else None
        password = primary.settings.get("requirepass") if primary else None
        self.settings.update(replicaof=address, masterauth=password)
        if self.is_running():
            self.execute("CONFIG SET", "masterauth", str(password or ""))
            self.execute("REPLICAOF", *(address or ("NO", "ONE")))

    def wait_until_it_has_all_of(self, primary: "RedisServer") -> None:
        """Wait until this replica is connected and has got everything that the primary has been told so far."""
        told = primary.execute("INFO", "replication")["master_repl_offset"]

        def has_all() -> bool:
            said = self.execute("INFO", "replication")
            return bool(said.get("master_link_status") == "up" and said["slave_repl_offset"] >= told)

        self._process.wait_until(has_all, "following another server")

    def close(self) -> None:
        """End it at once and remove its folder."""
        if self._process.is_running():
            self.kill()
        self._process.close()

    @property
    def _configuration(self) -> Path:
        return self._process.folder / "redis.conf"

    @property
    def _socket(self) -> Path:
        return self._process.folder / "socket"

    def _defaults(self) -> dict[str, Setting]:
        defaults: dict[str, Setting] = {
            "bind": self._host,
            "port": self.port,
            "unixsocket": str(self._socket),
            "unixsocketperm": 700 if os.geteuid() != 0 else 777,
            "dir": str(self.folder),
            "databases": 64,
            "save": "",
            "appendonly": True,
            "repl-diskless-sync-delay": 0,  # a replica would wait 5 s for others to come along
        }
        name, number = name_and_number(self._program)
        if name == "valkey" or int(number.partition(".")[0] or 0) >= 7:
            defaults["enable-debug-command"] = "local"  # before that, nobody was asked
        return defaults

    def _is_ready(self) -> bool:
        try:
            said = self.execute("INFO")
        except (redis.ConnectionError, redis.TimeoutError):
            return False
        return bool(said["process_id"] == self.pid and not said["loading"])  # somebody else may have the port


class RedisPair:
    """A primary and its replica behind one address that always leads to the primary, as a managed service has it."""

    def __init__(self, **options: Any) -> None:
        self.primary = RedisServer(**options)
        try:
            self.replica = RedisServer(replicaof=self.primary, **options)
            self.replica.wait_until_it_has_all_of(self.primary)
            self.proxy = Proxy.before(self.primary.url())
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def url(self, database: int = 0) -> str:
        """The address of whichever is the primary."""
        return self.proxy.url(self.primary.url(database))

    def failover(self, *, loses_nothing: bool = True) -> None:
        """Make the replica the primary, and stop the old one: by agreement, or by killing it with what it had not sent.

        Clients lose their connections. From then on `primary` and `replica` are the other way round, and the replica is
        down until `rejoin`.
        """
        old, new = self.primary, self.replica
        if loses_nothing:
            old.execute("CLIENT PAUSE", 60_000, "WRITE")
            new.wait_until_it_has_all_of(old)
        else:
            old.kill()
        new.follow(None)
        self.primary, self.replica = new, old
        self.proxy.point_at(new.url())
        self.proxy.cut()
        if old.is_running():
            old.stop()

    def rejoin(self) -> None:
        """Start the server that is down again, as a replica of the other; wait until it has caught up."""
        self.replica.follow(self.primary)
        self.replica.start()
        self.replica.wait_until_it_has_all_of(self.primary)

    def close(self) -> None:
        for part in ("proxy", "replica", "primary"):
            if hasattr(self, part):
                getattr(self, part).close()


def _with_database(url: str, number: int) -> str:
    parts = urlsplit(url)
    query = {name: value for name, value in parse_qsl(parts.query, keep_blank_values=True) if name != "db"}
    if parts.scheme == "unix":
        # By hand: urlunsplit leaves out the slashes before a path if no host is named.
        return f"unix://{parts.netloc}{parts.path}?{urlencode(query | {'db': str(number)})}"
    return urlunsplit(parts._replace(path=f"/{number}", query=urlencode(query)))


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query=""))


def _written(value: Setting) -> str:
    """A setting's value as redis.conf has it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return " ".join(map(_written, value))
    escaped = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
