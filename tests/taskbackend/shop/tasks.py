import threading

from asgiref.sync import sync_to_async
from django.db import connection, transaction
from django.tasks import task as django_task
from django.utils import timezone, translation

from tests.taskbackend.shop.models import Order
from tinyjobs import task

ran = []


@task
def noop(*args, **kwargs):
    pass


@django_task
def plain(*args, **kwargs):
    """Made by Django's own decorator."""
    ran.append(("plain", args, kwargs))
    return [args, kwargs]


@task
def add(a, b=1):
    return a + b


@task(max_attempts=3, timeout=30, retry_on=(ConnectionError,), retry_jitter=False)
def flaky(times=1):
    ran.append("flaky")
    if ran.count("flaky") <= times:
        raise ConnectionError("not yet")
    return "done"


@task
def fail(text="no"):
    raise ValueError(text)


@task
def log_in(user, password):
    pass


@task
def place_order(name):
    return Order.objects.create(name=name).pk


@task
def count_orders():
    return Order.objects.count()


@task
async def acount_orders():
    return await Order.objects.acount()


@task
async def aadd(a, b):
    return a + b


@task(takes_context=True)
def tell_context(context, *args):
    result = context.task_result
    return [result.id, result.status, context.attempt, result.worker_ids, result.args]


@task(takes_context=True)
async def atell_context(context, *args):
    return [context.task_result.id, context.attempt]


@task
def not_json():
    return {1, 2}


@task
def big(size):
    return "x" * size


@task
def thread_name():
    return threading.current_thread().name


@task
def spoil_translation():
    translation.activate("de")
    timezone.activate("Asia/Tokyo")
    return translation.get_language()


@task
def language():
    return [translation.get_language(), timezone.get_current_timezone_name()]


@task
def autocommit_off():
    connection.set_autocommit(False)
    Order.objects.create(name="left open")


@task
def enter_atomic_and_raise():
    transaction.atomic().__enter__()
    Order.objects.create(name="left inside")
    raise ValueError("left inside a transaction")


@task
def swallow_inside_atomic():
    with transaction.atomic():
        Order.objects.create(name="rolled back")
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT * FROM no_such_table")
        except Exception:
            pass
        try:
            Order.objects.create(name="broken")
        except Exception:
            pass


@task
def close_raw_connection():
    connection.ensure_connection()
    connection.connection.close()


@task
def send_another(name):
    place_order.enqueue(name)
    return "sent"


@task
def interrupt():
    raise KeyboardInterrupt


@task
def leave():
    raise SystemExit(3)


def not_a_task(x):
    return x


under_another_name = task(not_a_task)


@task
def write_and_fail(name):
    Order.objects.create(name=name)
    raise ValueError(name)


@task
def register_on_commit():
    transaction.on_commit(lambda: None)


@task
def register_inside_open_block():
    transaction.atomic().__enter__()
    transaction.on_commit(lambda: None)
    raise ValueError("left inside a transaction")


@task
def begin_by_hand():
    with connection.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("INSERT INTO shop_order (name, note) VALUES ('left open', '')")


@task
def count_left_behind():
    return Order.objects.filter(name__startswith="left").count()


meeting = threading.Barrier(1)


def _meet():
    Order.objects.count()
    meeting.wait(20)
    return threading.get_ident()


@task
async def ameet():
    return await sync_to_async(_meet)()


def _lane():
    connection.ensure_connection()
    return [threading.get_ident(), id(connection.connection)]


@task
async def alane():
    return await sync_to_async(_lane)()


@task
def name_of_order(name):
    return Order.objects.get(name=name).pk


@task(expires=60, result_ttl=30)
def urgent():
    return "in time"
