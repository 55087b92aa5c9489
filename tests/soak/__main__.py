"""`python -m tests.soak --store sqlite|postgres|redis --minutes N`. Servers are started where no URL is given."""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.soak.run import Settings, Soak


@contextmanager
def store(kind: str, folder: Path) -> Iterator[str]:
    """The URL of an empty store of that kind, for as long as the block runs."""
    if kind == "sqlite":
        yield f"sqlite:///{folder}/jobs.db"
    elif kind == "postgres":
        from tests.servers.postgres import Cluster

        with Cluster() as cluster:
            yield cluster.url(cluster.create_database())
    else:
        from tests.servers.redis import RedisServer

        with RedisServer() as server:
            yield server.url(server.create_database())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--store", choices=("sqlite", "postgres", "redis"), default="sqlite")
    parser.add_argument("--url", help="an empty store of that kind, instead of one that is made")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--rate", type=float, default=20.0, help="jobs a second")
    parser.add_argument("--workers", type=int, default=2, help="beside the one that is never stopped")
    parser.add_argument("--kill-every", type=float, default=15.0, metavar="SECONDS")
    parser.add_argument("--purge-every", type=float, default=20.0, metavar="SECONDS")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="tinyjobs-soak-"))
    with store(options.store, folder) as made:
        settings = Settings(
            url=options.url or made,
            seconds=options.minutes * 60,
            rate=options.rate,
            workers=options.workers,
            kill_every=options.kill_every,
            purge_every=options.purge_every,
        )
        report = Soak(settings, folder).run()
    print(report.markdown())
    print(f"The ledger and the workers' log: {folder}")
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
