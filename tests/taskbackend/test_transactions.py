"""A job is part of the caller's transaction: it is there when the transaction commits, and never otherwise."""

import threading

import pytest
from django.db import connection, connections, transaction
from django.tasks import default_task_backend
from django.tasks.exceptions import TaskResultDoesNotExist
from django.test import TransactionTestCase, override_settings
from django.test.client import RequestFactory

from tests.taskbackend.shop import tasks
from tests.taskbackend.shop.models import Order
from tinyjobs.core.inline import finish
from tinyjobs.models import Job
from tinyjobs.taskbackend.sending import Draft

PATIENCE = 20


class Abandoned(Exception):
    pass


def jobs_seen_from_outside():
    """The ids that another connection sees, as a worker would."""
    seen = []

    def look():
        try:
            seen.extend(Job.objects.order_by("id").values_list("id", flat=True))
        finally:
            connections.close_all()

    thread = threading.Thread(target=look)
    thread.start()
    thread.join(PATIENCE)
    return seen


class RefuseSecondBatch:
    """An `execute_wrapper` under which a bulk enqueue gets halfway."""

    def __init__(self):
        self.batches = 0

    def __call__(self, execute, sql, params, many, context):
        self.batches += sql.startswith("INSERT INTO tinyjobs_jobs")
        if self.batches == 2:
            self.batches += 1
            raise Abandoned
        return execute(sql, params, many, context)


class TransactionTests(TransactionTestCase):
    databases = {"default", "other"}

    def test_outside_a_transaction_it_commits_at_once(self):
        result = tasks.add.enqueue(1)

        self.assertEqual(jobs_seen_from_outside(), [result.id])

    def test_a_committed_block_brings_row_and_job_together(self):
        with transaction.atomic():
            Order.objects.create(name="one")
            result = tasks.add.enqueue(1)
            self.assertEqual(jobs_seen_from_outside(), [])
            self.assertEqual(default_task_backend.get_result(result.id), result)

        self.assertEqual(jobs_seen_from_outside(), [result.id])

    def test_a_rolled_back_block_leaves_no_job_and_no_key(self):
        with self.assertRaises(Abandoned), transaction.atomic():
            result = tasks.add.using(key="once").enqueue(1)
            raise Abandoned

        self.assertEqual(Job.objects.count(), 0)
        with self.assertRaises(TaskResultDoesNotExist):
            default_task_backend.get_result(result.id)
        self.assertFalse(tasks.add.using(key="once").enqueue(2).existing)

    def test_a_rolled_back_savepoint_takes_only_its_own_jobs(self):
        with transaction.atomic():
            outer = tasks.add.enqueue(1)
            with self.assertRaises(Abandoned), transaction.atomic():
                tasks.add.using(key="once").enqueue(2)
                tasks.add.enqueue_many([(3,), (4,)])
                raise Abandoned
            after = tasks.add.using(key="once").enqueue(5)

        self.assertEqual(jobs_seen_from_outside(), [outer.id, after.id])

    def test_enqueue_many_that_fails_halfway_leaves_the_block_usable(self):
        refuse = RefuseSecondBatch()
        with transaction.atomic():
            Order.objects.create(name="kept")
            with connection.execute_wrapper(refuse), self.assertRaises(Abandoned):
                tasks.add.enqueue_many([(number,) for number in range(5_001)])
            result = tasks.add.enqueue(1)

        self.assertEqual(jobs_seen_from_outside(), [result.id])
        self.assertEqual(Order.objects.count(), 1)

    def test_enqueue_many_outside_a_transaction_is_all_or_none(self):
        refuse = RefuseSecondBatch()
        with connection.execute_wrapper(refuse), self.assertRaises(Abandoned):
            tasks.add.enqueue_many([(number,) for number in range(5_001)])

        self.assertEqual(Job.objects.count(), 0)

    def test_on_commit_callbacks_see_the_job_and_run_in_order(self):
        told = []
        with transaction.atomic():
            transaction.on_commit(lambda: told.append(("first", jobs_seen_from_outside())))
            result = tasks.add.enqueue(1)
            transaction.on_commit(lambda: told.append(("second", tasks.add.enqueue(2).id)))

        self.assertEqual(told[0], ("first", [result.id]))
        self.assertEqual(jobs_seen_from_outside(), [result.id, told[1][1]])

    def test_a_block_on_another_database_does_not_hold_the_job(self):
        with self.assertRaises(Abandoned), transaction.atomic(using="other"):
            result = tasks.add.enqueue(1)
            raise Abandoned

        self.assertEqual(jobs_seen_from_outside(), [result.id])

    def test_with_autocommit_off_the_job_waits_for_the_callers_commit(self):
        transaction.set_autocommit(False)
        try:
            tasks.add.enqueue(1)
            tasks.add.enqueue_many([(2,)])
            transaction.rollback()
            self.assertEqual(jobs_seen_from_outside(), [])
            result = tasks.add.enqueue(3)
            transaction.commit()
        finally:
            transaction.set_autocommit(True)

        self.assertEqual(jobs_seen_from_outside(), [result.id])

    def test_a_view_under_atomic_requests(self):
        def sends_and_fails(request):
            tasks.add.enqueue(1)
            raise Abandoned

        def sends(request):
            return tasks.add.enqueue(2)

        connection.settings_dict["ATOMIC_REQUESTS"] = True
        self.addCleanup(connection.settings_dict.__setitem__, "ATOMIC_REQUESTS", False)
        from django.core.handlers.base import BaseHandler

        handler = BaseHandler()
        request = RequestFactory().get("/")
        with self.assertRaises(Abandoned):
            handler.make_view_atomic(sends_and_fails)(request)
        result = handler.make_view_atomic(sends)(request)

        self.assertEqual(jobs_seen_from_outside(), [result.id])

    def test_a_failing_insert_rolls_the_callers_block_back(self):
        class DiskFull(Exception):
            pass

        def refuse(execute, sql, params, many, context):
            if sql.startswith("INSERT INTO tinyjobs_jobs"):
                raise DiskFull
            return execute(sql, params, many, context)

        with self.assertRaises(DiskFull), connection.execute_wrapper(refuse), transaction.atomic():
            Order.objects.create(name="notified")
            tasks.add.enqueue(1)

        self.assertEqual(Order.objects.count(), 0)

    def test_who_waits_for_a_key_of_a_block_that_rolls_back_gets_a_job_of_its_own(self):
        sent, second = threading.Event(), []

        def wait_for_the_key():
            try:
                sent.wait(PATIENCE)
                second.append(tasks.add.using(key="once").enqueue(2))
            finally:
                connections.close_all()

        thread = threading.Thread(target=wait_for_the_key)
        thread.start()
        with self.assertRaises(Abandoned), transaction.atomic():
            first = tasks.add.using(key="once").enqueue(1)
            sent.set()
            thread.join(0.2)  # long enough for the other to stand at the lock; right either way
            raise Abandoned
        thread.join(PATIENCE)

        self.assertEqual(jobs_seen_from_outside(), [second[0].id])
        self.assertFalse(second[0].existing)
        self.assertNotEqual(second[0].id, first.id)

    @pytest.mark.postgres
    def test_bulks_with_the_same_keys_the_other_way_round_wait_for_each_other(self):
        held, errors = "m", []
        keys = list("abcdefghijklmnopqrstuvwxyz")

        def send(order):
            try:
                with transaction.atomic():
                    shared = default_task_backend.shared
                    # One bulk of jobs with a key each, which `enqueue_many` of one task cannot say.
                    jobs = [Draft(shared, tasks.add.using(key=key)).one([1], {})[0] for key in order]
                    finish(shared.store.enqueue_many(jobs))
            except Exception as error:
                errors.append(error)
            finally:
                connections.close_all()

        threads = [threading.Thread(target=send, args=[order]) for order in (keys, keys[::-1])]
        with self.assertRaises(Abandoned), transaction.atomic():
            tasks.add.using(key=held).enqueue(0)
            for thread in threads:
                thread.start()
            # Each has got as far as it can: had they gone through the keys in two orders, they had each half of them.
            self.wait_for_waiting(2)
            raise Abandoned
        for thread in threads:
            thread.join(PATIENCE)

        self.assertEqual(errors, [])
        self.assertEqual(sorted(Job.objects.values_list("dedup_key", flat=True)), keys)

    def wait_for_waiting(self, count):
        pause = threading.Event()
        for _ in range(PATIENCE * 100):
            with connection.cursor() as cursor:
                # Inside a transaction the sessions would stay those of the first look.
                cursor.execute("SELECT pg_stat_clear_snapshot()")
                cursor.execute(
                    "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)"
                    " WHERE NOT granted AND datname = current_database()",
                )
                if cursor.fetchone() == (count,):
                    return
            pause.wait(0.01)
        self.fail("nobody waits")

    def test_fifty_threads_with_one_key_make_one_job(self):
        barrier, results, errors = threading.Barrier(50), [], []

        def send():
            try:
                barrier.wait(PATIENCE)
                results.append(tasks.add.using(key="once").enqueue(1))
            except Exception as error:
                errors.append(error)
            finally:
                connections.close_all()

        threads = [threading.Thread(target=send) for _ in range(50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)

        self.assertEqual(errors, [])
        self.assertEqual(len({result.id for result in results}), 1)
        self.assertEqual(sorted(result.existing for result in results), [False] + [True] * 49)
        self.assertEqual(Job.objects.count(), 1)


@override_settings(TASKS={"default": {"BACKEND": "tinyjobs.TinyJobsBackend", "OPTIONS": {"database": "other"}}})
class OtherDatabaseTests(TransactionTestCase):
    databases = {"default", "other"}

    def test_jobs_go_to_the_database_that_the_settings_name(self):
        with self.assertNumQueries(1, using="other"), self.assertNumQueries(0):
            result = tasks.add.enqueue(1)

        self.assertEqual(Job.objects.using("other").get().pk, result.id)
        self.assertEqual(Job.objects.count(), 0)
        with self.assertNumQueries(1, using="other"):
            result.refresh()

    def test_its_own_transaction_holds_the_job(self):
        with self.assertRaises(Abandoned), transaction.atomic(using="other"):
            tasks.add.enqueue(1)
            raise Abandoned

        self.assertEqual(Job.objects.using("other").count(), 0)

    @override_settings(DATABASE_ROUTERS=["tinyjobs.taskbackend.router.JobsRouter"])
    def test_with_the_router_the_models_are_read_there_too(self):
        result = tasks.add.enqueue(1)
        self.assertEqual(Job.objects.get().pk, result.id)
        self.assertEqual(Job.objects.filter(pk=result.id).delete()[0], 1)
        self.assertEqual(Order.objects.all().db, "default")

    def test_a_router_for_reads_is_not_asked(self):
        class Replica:
            def db_for_read(self, model, **hints):
                return "default"

        with override_settings(DATABASE_ROUTERS=[Replica()]):
            result = tasks.add.enqueue(1)
            self.assertEqual(default_task_backend.get_result(result.id), result)
