"""What happens in the demo, step by step."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.db.models.signals import post_save
from django.tasks import TaskResultStatus

from shop.demo.verdict import PURPOSES, Events, Row, complaints, read_rows, table
from shop.demo.workers import DemoFailed, WorkerProcess
from shop.models import Order, Product
from shop.orders import OutOfStock, place_order
from shop.payment import PaymentDeclined

# Who orders how much of which product. The second and the fifth are turned down when everything is written already;
# the fourth asks for more than there is.
ORDERS = (
    ("customer-1@example.com", {"Drip kettle": 1, "Filter papers, 100": 2}),
    ("declined-1@example.com", {"Mug": 4}),
    ("customer-2@example.com", {"Coffee, 250 g": 3}),
    ("customer-3@example.com", {"Mug": 1, "Hand grinder": 500}),
    ("declined-2@example.com", {"Coffee, 250 g": 1, "Mug": 1}),
    ("customer-4@example.com", {"Hand grinder": 1, "Coffee, 250 g": 2}),
    ("customer-5@example.com", {"Mug": 6}),
)
WRITTEN = ("mail", "invoices", "exports", "feed")
PATIENCE = 60.0


class Story:
    """One telling. `say` is given a line of progress at a time."""

    def __init__(self, say: Callable[[str], object]) -> None:
        self._say = say
        self.events = Events()

    def tell(self) -> list[str]:
        """Let everything happen; what was not as it should be, nothing if all is well."""
        self._begin_afresh()
        self._place_orders()
        self._lose_a_worker()
        self._finish_with_another()
        rows = read_rows(self.events.committed)
        self._say("\nWhat the store says of every job of every committed order:\n")
        for line in table(rows):
            self._say(f"  {line}")
        self._say(f"\nJob ids handed out to orders that were rolled back: {len(self.events.ids_in_vain)}.")
        return complaints(self.events, rows, settings.VAR)

    def _begin_afresh(self) -> None:
        is_file = connection.vendor == "sqlite"
        place = f"in {settings.VAR}" if is_file else f"{connection.settings_dict['NAME']} on Postgres"
        self._say(f"A fresh database, {place}")
        jobs = settings.TASKS["default"].get("OPTIONS", {})
        if "url" in jobs:
            self._say(f"Jobs are kept in Redis. Of an earlier demo's keys {_forget(**jobs)} were deleted.")
        connection.close()
        if not is_file:
            _make_anew(connection.settings_dict["NAME"])
        # By name, and nothing else: the directory may be one that somebody keeps other things in.
        leftovers = [path for name in WRITTEN for path in (settings.VAR / name).glob("*") if path.is_file()]
        for path in [*settings.VAR.glob("shop.sqlite3*"), *settings.VAR.glob("worker-*.log"), *leftovers]:
            path.unlink()
        call_command("migrate", verbosity=0)

    def _place_orders(self) -> None:
        self._say("\nOrders are placed, each with its jobs in one transaction:")
        products = {product.name: product.pk for product in Product.objects.all()}
        for email, wanted in ORDERS:
            with _watching() as orders:
                try:
                    order = place_order(email, {products[name]: quantity for name, quantity in wanted.items()})
                except (PaymentDeclined, OutOfStock) as refusal:
                    given_up = [job_id for order in orders.values() for job_id in order.jobs.values()]
                    self.events.ids_in_vain += given_up
                    self.events.rolled_back += orders
                    self._say(f"  {email}: rolled back with {len(given_up)} jobs. {refusal}")
                else:
                    self.events.committed.append(order.reference)
                    self._say(f"  {email}: committed with {len(order.jobs)} jobs, order {order.reference}")

    def _lose_a_worker(self) -> None:
        self._say("\nA first worker starts, with one thread, and takes a minute for an invoice.")
        # A lease of three seconds, so that nobody has to wait long for the one that will be lost. The default is 60.
        options = ("--concurrency", "1", "--lease", "3")
        with WorkerProcess("worker-1", *options, SHOP_INVOICE_SECONDS="60") as worker:
            self._say(f"  It is process {worker.pid}.")
            worker.wait_until(self._is_deep_in_an_invoice, "a worker is in the middle of an invoice", PATIENCE)
            rows = read_rows(self.events.committed)
            caught = _running(rows)[0]
            self.events.killed_job = caught.job_id
            done = sum(row.is_success for row in rows)
            self._say(f"  It has done {done} jobs and is in the middle of the invoice of order {caught.reference}.")
            worker.kill()
        status = next(row.status for row in read_rows([caught.reference]) if row.job_id == caught.job_id)
        self._say(f"  Killed with SIGKILL. The store cannot know yet: that job still reads {status.lower()}.")

    def _is_deep_in_an_invoice(self) -> bool:
        """Whether an invoice is all that still runs, and what the worker did before stands recorded."""
        rows = read_rows(self.events.committed)
        running = _running(rows)
        feeds_are_done = all(row.is_success for row in rows if row.purpose == "feed")
        return feeds_are_done and [row.purpose for row in running] == ["invoice"]

    def _finish_with_another(self) -> None:
        self._say("\nA second worker starts. It does what is left, and takes the lost job once its lease has run out.")
        options = ("--concurrency", "4", "--reap-interval", "0.5")
        with WorkerProcess("worker-2", *options, SHOP_INVOICE_SECONDS="0") as worker:
            self._say(f"  It is process {worker.pid}.")
            worker.wait_until(self._all_have_ended, "every job has ended", PATIENCE)
            rows = read_rows(self.events.committed)
            self._say(f"  All {len(rows)} jobs have ended: {_counted(rows)}.")
            status = worker.stop(PATIENCE)
        if status != 0:
            raise DemoFailed(f"The second worker was asked to stop and ended with status {status}; see {worker.log}.")
        self._say("  Asked to stop with SIGTERM, it ended with status 0.")

    def _all_have_ended(self) -> bool:
        ended = (TaskResultStatus.SUCCESSFUL.value, TaskResultStatus.FAILED.value)
        rows = read_rows(self.events.committed)
        return len(rows) == len(self.events.committed) * len(PURPOSES) and all(row.status in ended for row in rows)


def _make_anew(database: str) -> None:
    name = connection.ops.quote_name(database)
    with connection._nodb_cursor() as cursor:  # a connection to the server, whose database is not there yet
        cursor.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        cursor.execute(f"CREATE DATABASE {name}")


def _running(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row.status == TaskResultStatus.RUNNING.value]


def _counted(rows: list[Row]) -> str:
    return ", ".join(f"{number} {status.lower()}" for status, number in Counter(row.status for row in rows).items())


def _forget(url: str, prefix: str) -> int:
    """Delete what an earlier demo left in Redis; how many keys that were."""
    import redis

    with redis.Redis.from_url(url) as client:
        return sum(client.delete(key) for key in client.scan_iter(f"{{{prefix}}}:*", count=1_000))


@contextmanager
def _watching() -> Iterator[dict[str, Order]]:
    """Every order that is written inside the block, by its reference, also of transactions that are rolled back."""
    seen: dict[str, Order] = {}

    def note(instance: Order, **_: Any) -> None:
        seen[instance.reference] = instance

    post_save.connect(note, sender=Order)
    try:
        yield seen
    finally:
        post_save.disconnect(note, sender=Order)
