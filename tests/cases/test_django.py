"""A Django project's habits that have broken queues: commands inside a test's transaction, rows that go away."""

import io
import threading

from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.tasks import TaskResultStatus
from django.tasks.exceptions import TaskResultDoesNotExist
from django.test import TestCase, TransactionTestCase

from tests.taskbackend.shop import tasks
from tests.taskbackend.shop.models import Order
from tinyjobs.models import Job
from tinyjobs.testing import drain


def run_worker() -> str:
    out = io.StringIO()
    call_command("tinyjobs", "worker", "--until-empty", stdout=out, stderr=out)
    return out.getvalue()


class InsideATestsTransaction(TestCase):
    def test_a_worker_is_refused_with_the_remedy_and_the_connection_stays(self):
        result = tasks.place_order.enqueue("one")
        with self.assertRaisesMessage(CommandError, "tinyjobs.testing.drain()"):
            run_worker()
        self.assertTrue(connection.in_atomic_block)
        self.assertEqual(drain(), 1)
        result.refresh()
        self.assertEqual(result.return_value, Order.objects.get(name="one").pk)

    def test_commands_that_look_use_it(self):
        result = tasks.add.enqueue(1)
        out = io.StringIO()
        call_command("tinyjobs", "jobs", "list", stdout=out)
        call_command("tinyjobs", "queues", stdout=out)
        call_command("tinyjobs", "jobs", "cancel", result.id, stdout=out)
        self.assertIn(result.id, out.getvalue())
        result.refresh()
        self.assertEqual(result.status, TaskResultStatus.FAILED)


class OutsideOfOne(TransactionTestCase):
    def test_a_worker_in_a_block_of_the_programs_own_is_refused_as_well(self):
        with transaction.atomic(), self.assertRaisesMessage(CommandError, "transaction open"):
            run_worker()

    def test_a_block_of_another_thread_is_none_of_its_business(self):
        entered, done = threading.Event(), threading.Event()

        def hold():
            try:
                with transaction.atomic():
                    Order.objects.count()
                    entered.set()
                    done.wait(20)
            finally:
                connection.close()

        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        holder = threading.Thread(target=hold)
        if connection.vendor == "sqlite":  # so that the block of the other one holds no lock
            options = connection.settings_dict["OPTIONS"]
            self.addCleanup(options.update, transaction_mode=options["transaction_mode"])
            options["transaction_mode"] = "DEFERRED"
        try:
            holder.start()
            self.assertTrue(entered.wait(20))
            result = tasks.add.enqueue(1)
            self.assertIn("1 job ran", run_worker())
        finally:
            done.set()
            holder.join()
        result.refresh()
        self.assertEqual(result.return_value, 2)


class RowsThatGoAway(TestCase):
    def test_a_deleted_jobs_id_does_not_exist_and_its_attempts_hurt_nobody(self):
        result = tasks.fail.enqueue("gone")
        with self.assertLogs("django.tasks", "ERROR"):
            drain()
        Job.objects.filter(pk=result.id).delete()
        with self.assertRaisesMessage(TaskResultDoesNotExist, result.id):
            tasks.fail.get_result(result.id)
        tasks.add.enqueue(1)
        self.assertEqual(drain(), 1)
