"""The shop's own tests: `python manage.py test`. They show how a project tests what it sends to tinyjobs."""

import tempfile
from pathlib import Path

from django.contrib.auth import get_user_model
from django.core import mail
from django.tasks import TaskResultStatus, default_task_backend
from django.test import TestCase, override_settings

from shop import tasks
from shop.models import Order, Product
from shop.orders import OutOfStock, place_order
from shop.payment import PaymentDeclined
from shop.warehouse import WarehouseUnavailable
from tinyjobs.testing import assert_enqueued, assert_not_enqueued, drain

EMAIL = "customer-1@example.com"


class ShopTestCase(TestCase):
    """Has a product, and a directory for what the tasks write."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        changed = override_settings(VAR=self.directory)
        changed.enable()
        self.addCleanup(changed.disable)
        self.mug = Product.objects.get(name="Mug")


class PlacingAnOrder(ShopTestCase):
    def test_the_order_and_its_jobs_come_together(self):
        order = place_order(EMAIL, {self.mug.pk: 2})
        for task in (tasks.send_receipt, tasks.render_invoice, tasks.export_stock, tasks.publish_order):
            assert_enqueued(task, [order.reference], times=1)

    def test_a_declined_payment_leaves_neither(self):
        with self.assertRaises(PaymentDeclined):
            place_order("declined-1@example.com", {self.mug.pk: 2})
        self.assertFalse(Order.objects.exists())
        assert_not_enqueued()

    def test_nobody_gets_more_than_there_is(self):
        with self.assertRaises(OutOfStock):
            place_order(EMAIL, {self.mug.pk: self.mug.stock + 1})
        assert_not_enqueued()


class RunningTheJobs(ShopTestCase):
    def test_a_drain_runs_them_inside_the_test(self):
        order = place_order(EMAIL, {self.mug.pk: 2})
        drain()
        self.assertEqual([message.subject for message in mail.outbox], [f"Your order {order.reference}"])
        self.assertIn("19.60", (self.directory / "invoices" / f"{order.reference}.html").read_text("utf-8"))
        self.assertTrue((self.directory / "feed" / f"{order.reference}.json").exists())
        status = default_task_backend.get_result(order.jobs["receipt"]).status
        self.assertEqual(status, TaskResultStatus.SUCCESSFUL)

    def test_a_second_run_sends_no_second_mail(self):
        order = place_order(EMAIL, {self.mug.pk: 2})
        self.assertEqual(tasks.send_receipt.call(order.reference), "sent")
        self.assertEqual(tasks.send_receipt.call(order.reference), "had been sent")
        self.assertEqual(len(mail.outbox), 1)

    def test_the_export_waits_for_another_try(self):
        order = place_order(EMAIL, {self.mug.pk: 2})
        drain()
        result = default_task_backend.get_result(order.jobs["export"])
        self.assertEqual(result.status, TaskResultStatus.READY)
        self.assertIs(result.errors[0].exception_class, WarehouseUnavailable)
        # The wait between tries is not waited for here: the next ones are made by hand.
        with self.assertRaises(WarehouseUnavailable):
            tasks.export_stock.call(order.reference)
        self.assertEqual(tasks.export_stock.call(order.reference), "delivered at try 3")


class Pages(ShopTestCase):
    def test_an_order_is_placed_and_shown_with_its_jobs(self):
        answer = self.client.post("/", {"email": EMAIL, f"quantity-{self.mug.pk}": "1"}, follow=True)
        self.assertContains(answer, "Receipt")
        self.assertContains(answer, "Ready")
        drain()
        self.assertContains(self.client.get(answer.redirect_chain[-1][0]), "Successful")

    def test_a_refusal_is_told_on_the_page(self):
        answer = self.client.post("/", {"email": "declined-1@example.com", f"quantity-{self.mug.pk}": "1"})
        self.assertContains(answer, "was declined", status_code=400)

    def test_an_empty_order_is_no_order(self):
        self.assertContains(self.client.post("/", {"email": EMAIL}), "at least one product", status_code=400)

    def test_the_admin_shows_orders(self):
        order = place_order(EMAIL, {self.mug.pk: 2})
        self.client.force_login(get_user_model().objects.create_superuser("someone", password="something"))
        for page in ("order/", f"order/{order.reference}/change/", "product/", "stockexport/"):
            self.assertEqual(self.client.get(f"/admin/shop/{page}").status_code, 200, page)
        self.assertContains(self.client.get("/admin/shop/order/"), "19.60")
        self.assertContains(self.client.get(f"/admin/shop/order/{order.reference}/change/"), order.jobs["receipt"])
