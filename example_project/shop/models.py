"""Products, orders, and the notes by which the tasks know what they have done already."""

import secrets
from decimal import Decimal

from django.db import models
from django.urls import reverse
from django.utils import timezone


def new_reference() -> str:
    """A short name for an order, never used twice: the number of a rolled-back row would be given out again."""
    return secrets.token_hex(4).upper()


class Product(models.Model):
    name = models.CharField(max_length=80, unique=True)
    price = models.DecimalField(max_digits=8, decimal_places=2)
    stock = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Order(models.Model):
    reference = models.CharField(max_length=8, primary_key=True, default=new_reference, editable=False)
    customer_email = models.EmailField()
    placed_at = models.DateTimeField(default=timezone.now)
    # The ids of the order's jobs, by what they are for, so that its page can say how far they are.
    jobs = models.JSONField(default=dict, blank=True, editable=False)
    # Set by the task that sends the receipt: a second run sees it and sends no second mail.
    receipt_sent_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        ordering = ["-placed_at"]

    def __str__(self) -> str:
        return self.reference

    def get_absolute_url(self) -> str:
        return reverse("order", args=[self.reference])

    @property
    def total(self) -> Decimal:
        return sum((line.amount for line in self.lines.all()), Decimal())


class OrderLine(models.Model):
    order = models.ForeignKey(Order, on_delete=models.CASCADE, related_name="lines")
    product = models.ForeignKey(Product, on_delete=models.PROTECT)
    quantity = models.PositiveIntegerField()
    # The price on the day. The product's own may change later, the order's may not.
    unit_price = models.DecimalField(max_digits=8, decimal_places=2)

    def __str__(self) -> str:
        return f"{self.quantity} × {self.product}"

    @property
    def amount(self) -> Decimal:
        return self.quantity * self.unit_price


class StockExport(models.Model):
    """What the warehouse is told after an order."""

    order = models.OneToOneField(Order, on_delete=models.CASCADE, primary_key=True, related_name="export")
    tries = models.PositiveIntegerField(default=0)
    delivered_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"export for {self.order_id}"
