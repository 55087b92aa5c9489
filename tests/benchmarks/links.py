"""How well a worker fills its slots over a slow link to Redis.

`python -m tests.benchmarks.links` starts a server and a link before it, and tells for numbers of slots and delays which
share of the slots divided by the round trip a worker of no-op coroutines reaches. The link is a process of its own.
What is missing to 100 % is work at both ends: one script records and claims as many jobs as there are slots, so a turn
of the worker is the longer the more there are.
"""

import argparse
import statistics
import time
from dataclasses import dataclass

from tests.servers.link import slow_link
from tests.servers.redis import RedisServer
from tinyjobs.app.facade import TinyJobs
from tinyjobs.core.inline import finish

JOBS_A_SLOT = 400


@dataclass(frozen=True, slots=True)
class Run:
    """One drain over a link: its median round trip in seconds, its jobs a second, and its slots."""

    round_trip: float
    rate: float
    slots: int

    @property
    def share(self) -> float:
        """Of what the slots and the round trip allow."""
        return self.rate * self.round_trip / self.slots


def drain(server: str, link: str, slots: int) -> Run:
    """Fill the store by its own URL, and drain it by that of the link."""
    with TinyJobs(server) as direct, TinyJobs(link) as app:
        direct.task(name="nothing")(_nothing).enqueue_many([()] * JOBS_A_SLOT * slots)
        app.task(name="nothing")(_nothing)
        trip = _round_trip(app)
        began = time.perf_counter()
        report = app.run_worker(async_concurrency=slots, concurrency=1, until_empty=True)
        return Run(trip, report.succeeded / (time.perf_counter() - began), slots)


async def _nothing() -> None:
    pass


def _round_trip(app: TinyJobs) -> float:
    """The median of fifty questions, in seconds."""
    store = app.engine.store.inline()
    finish(store.setup())
    trips = []
    for _ in range(50):
        began = time.perf_counter()
        finish(store.get("none"))
        trips.append(time.perf_counter() - began)
    return statistics.median(trips)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="drains for each line, of which the median is told")
    runs = parser.parse_args().runs
    print("| added to a round trip | slots | round trip | jobs a second | share |")
    print("| ---: | ---: | ---: | ---: | ---: |")
    with RedisServer() as server:
        for added in (0.002, 0.004):
            for slots in (1, 2, 4, 8):
                with slow_link(server.url(), added / 2) as link:
                    done = [drain(server.url(), link, slots) for _ in range(runs)]
                run = sorted(done, key=lambda run: run.share)[runs // 2]
                trip = f"{run.round_trip * 1000:.1f} ms"
                print(f"| {added * 1000:.0f} ms | {slots} | {trip} | {run.rate:,.0f} | {run.share:.0%} |", flush=True)


if __name__ == "__main__":
    main()
