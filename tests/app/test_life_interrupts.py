"""Ctrl-C at every line of a call: the app stays usable, the file consistent, and a job is there whole or not at all."""

import random
import signal
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing
from functools import partial

import pytest

from tests.app.strikes import Strike, strikes
from tinyjobs.core.errors import AppClosedError
from tinyjobs.core.job import Execution, Job
from tinyjobs.core.status import JobStatus

# Struck on the return from `sqlite3.connect`, Python drops what it gave. That closes it, but not without a word.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*unclosed database:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


class Alarm(BaseException):
    """What a handler raises that is no Ctrl-C. Inside a task's function it counts as that function's own."""


class Shop:
    """An app on a file with one task, and what was run. An attempt that fails is tried again at once."""

    def __init__(self, make_app, path) -> None:
        self.path = path
        self.app = make_app(f"sqlite:///{path}", clock=None)
        self.ran: list[int] = []

        @self.app.task(name="sample", max_attempts=2, retry_base=1e-6, retry_on=(BaseException,))
        def sample(number):
            self.ran.append(number)

        self.sample = sample

    def statuses(self) -> list[str]:
        return _statuses(self.path)

    def left_over(self) -> list[tuple[Job, Sequence[Execution]]]:
        """The jobs that came to no good end, and how each of their attempts did."""
        odd = [job for job in self.app.list(limit=1_000).jobs if job.status not in ("success", "cancelled")]
        return [(job, self.app.executions(job)) for job in odd]

    def check(self, strike: Strike) -> None:
        """Everything works as before: for this thread, for another one, and for another process's connection."""
        place = f"after an interrupt at {strike.where}"
        with closing(sqlite3.connect(self.path, timeout=30)) as other:
            other.execute("BEGIN IMMEDIATE")
            other.rollback()
        answers: list[object] = []
        thread = threading.Thread(target=lambda: answers.append(self.sample.enqueue(-1).id), daemon=True)
        thread.start()
        thread.join(60)
        assert answers, f"another thread cannot go on {place}"
        job = self.sample.enqueue(-2)
        assert self.app.get(job).status is JobStatus.QUEUED, place
        self.app.drain()
        assert self.app.get(job).status is JobStatus.SUCCESS, place
        assert set(self.statuses()) <= {"success", "cancelled"}, f"{place}: {self.left_over()}"
        assert not [call for call in self.app._access.current.calls if call.cr_frame is not None], place


def _statuses(path) -> list[str]:
    with closing(sqlite3.connect(path)) as other:
        found = other.execute("SELECT status FROM tinyjobs_jobs").fetchall()
    return [status for (status,) in found]


@pytest.fixture(params=[pytest.param(1, marks=pytest.mark.slow, id="every line"), pytest.param(17, id="some lines")])
def step(request) -> int:
    return request.param


@pytest.fixture
def make_shop(make_app, tmp_path):
    """Makes shops, and looks in the end whether their files are sound."""
    shops = []

    def make():
        shops.append(Shop(make_app, tmp_path / f"jobs-{len(shops)}.db"))
        return shops[-1]

    yield make
    for shop in shops:
        with closing(sqlite3.connect(shop.path)) as raw:
            assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


CALLS = {
    "enqueue": (lambda shop: shop.sample.enqueue(1), {0, 1}),
    "enqueue with a key": (lambda shop: shop.sample.with_options(key="one").enqueue(1), {0, 1}),
    "enqueue_many": (lambda shop: shop.sample.enqueue_many([(number,) for number in range(3)]), {0, 3}),
    "get": (lambda shop: shop.app.get("none"), {0}),
    "list": (lambda shop: shop.app.list(limit=2), {0}),
    "stats": (lambda shop: shop.app.stats(), {0}),
    "purge": (lambda shop: shop.app.purge(), {0}),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call(make_shop, step, name):
    call, added = CALLS[name]
    shop = make_shop()
    shop.app.setup()
    shop.check(Strike(0))
    for strike in strikes(step):
        before = len(shop.statuses())
        strike(lambda: call(shop))
        assert len(shop.statuses()) - before in added, strike.where
        shop.check(strike)


def test_a_cancel_and_a_retry(make_shop, step):
    shop = make_shop()
    for strike in strikes(step):
        job = shop.sample.enqueue(1)
        strike(partial(shop.app.cancel, job))
        assert shop.app.get(job).status in {JobStatus.QUEUED, JobStatus.CANCELLED}, strike.where
        shop.app.cancel(job)
        strike.again()(partial(shop.app.retry, job))
        shop.app.cancel(job)
        shop.check(strike)


def test_the_first_call(make_shop, step):
    for strike in strikes(step):
        shop = make_shop()
        strike(partial(shop.sample.enqueue, 1))
        shop.app.setup()
        assert len(shop.statuses()) in {0, 1}, strike.where
        shop.check(strike)


def test_a_close(make_shop, step):
    shop = make_shop()
    for strike in strikes(step):
        shop.check(strike)
        strike(shop.app.close)
        try:
            shop.app.stats()
        except AppClosedError:
            shop.app.start()
        shop.check(strike)
        shop.app.close()
        with pytest.raises(AppClosedError):
            shop.app.stats()
        shop.app.start()


def test_a_block(make_shop, step):
    shop = make_shop()

    def block():
        with shop.app:
            shop.sample.enqueue(1)

    for strike in strikes(step):
        strike(block)
        shop.app.start()
        shop.check(strike)


@pytest.mark.parametrize("error", [KeyboardInterrupt, Alarm])
def test_a_drain(make_shop, step, error):
    """What it had claimed is recorded, or goes back at once: nobody has to wait for a lease."""
    shop = make_shop()
    for strike in strikes(step if error is KeyboardInterrupt else max(step, 5), error):
        shop.ran.clear()
        shop.sample.enqueue_many([(1,), (2,)])
        strike(shop.app.drain)
        assert set(shop.statuses()) <= {"queued", "success"}, strike.where
        shop.check(strike)
        assert {1, 2} <= set(shop.ran), strike.where
        assert max(shop.ran.count(1), shop.ran.count(2)) <= 2, strike.where


@pytest.mark.parametrize("ends", ["commit", "rollback"])
def test_a_transaction_of_the_callers(make_shop, step, ends):
    """With `tx=` the caller's transaction is the caller's still: the job is in it whole, or not at all."""
    shop = make_shop()
    shop.app.setup()
    shop.check(Strike(0))
    with closing(sqlite3.connect(shop.path, isolation_level=None, timeout=30)) as mine:
        mine.execute("CREATE TABLE mine (number)")
        for number, strike in enumerate(strikes(step)):
            before = len(shop.statuses())
            mine.execute("BEGIN IMMEDIATE")
            mine.execute("INSERT INTO mine VALUES (?)", [number])
            strike(lambda: shop.sample.with_options(tx=mine).enqueue_many([(1,), (2,)]))
            assert mine.in_transaction, strike.where
            mine.execute(ends)
            kept = mine.execute("SELECT count(*) FROM mine WHERE number = ?", [number]).fetchone()[0]
            added = len(shop.statuses()) - before
            assert kept == (ends == "commit"), strike.where
            assert added in ({0, 2} if kept else {0}), strike.where
            shop.check(strike)


def test_a_call_on_postgres(make_app, postgres_url, step):
    """The pool keeps its connections, of which there are two here."""
    app = make_app(postgres_url, clock=None, max_connections=2, pool_timeout=20)
    app.send("sample")
    sent = 1
    for strike in strikes(step):
        struck = strike(lambda: app.send("sample"))
        for _ in range(2):
            app.send("sample")
        before, sent = sent, app.stats().by_status["queued"]
        assert sent - before in ({2, 3} if struck is None else {3}), strike.where


def struck_by_alarm(action, seconds, error):
    """Run it with a true signal on its way, whose handler raises that wherever it finds the main thread."""
    armed = [True]

    def ring(number, frame):
        if armed:
            armed.clear()
            raise error

    before = signal.signal(signal.SIGALRM, ring)
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds)
            action()
        finally:
            armed.clear()
    except error:
        pass
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no timers that signal")
@pytest.mark.parametrize("rounds", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_true_signals(make_shop, rounds):
    """At any moment, also inside what Python and SQLite do on our behalf."""
    shop = make_shop()
    chance = random.Random(rounds)

    def drain():
        shop.sample.enqueue_many([(number,) for number in range(20)])
        shop.app.drain()

    def send():
        for number in range(200):
            shop.sample.enqueue(number)

    def reopen():
        for _ in range(3):
            shop.app.close()
            shop.app.start()

    for number in range(rounds):
        error = (KeyboardInterrupt, Alarm)[number % 2]
        strike = Strike(0)
        strike.where = f"round {number}"
        struck_by_alarm([drain, send, reopen][number % 3], chance.uniform(0.0001, 0.03), error)
        shop.app.start()
        shop.check(strike)
