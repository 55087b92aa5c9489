"""Placing an order: one transaction in which the order and its jobs come to be, or do not."""

from collections.abc import Mapping

from django.db import transaction
from django.db.models import F

from shop import payment, tasks
from shop.models import Order, OrderLine, Product, StockExport


class OutOfStock(Exception):
    """There is not enough of a product."""


def place_order(email: str, wanted: Mapping[int, int]) -> Order:
    """Order the quantities `wanted`, by the products' primary keys. Raises `OutOfStock` or `PaymentDeclined`.

    An enqueue is one more INSERT in this transaction. A worker sees the jobs at the moment when everybody else sees
    the order, and not before; when the payment is turned down at the end, there is neither an order nor a job.
    """
    with transaction.atomic():
        order = Order.objects.create(customer_email=email)
        for product_id, quantity in wanted.items():
            _add_line(order, product_id, quantity)
        StockExport.objects.create(order=order)
        # Tasks get the key of the order and not the order: by the time they run they read it as it is then.
        order.jobs = {
            "receipt": tasks.send_receipt.enqueue(order.reference).id,
            "invoice": tasks.render_invoice.enqueue(order.reference).id,
            "export": tasks.export_stock.enqueue(order.reference).id,
            "feed": tasks.publish_order.enqueue(order.reference).id,
        }
        order.save(update_fields=["jobs"])
        payment.authorise(email, order.total)
    return order


def _add_line(order: Order, product_id: int, quantity: int) -> None:
    product = Product.objects.get(pk=product_id)
    # Asked and taken in one statement, so that two customers cannot both get the last one.
    taken = Product.objects.filter(pk=product_id, stock__gte=quantity).update(stock=F("stock") - quantity)
    if not taken:
        raise OutOfStock(f"There are not {quantity} of {product} left.")
    OrderLine.objects.create(order=order, product=product, quantity=quantity, unit_price=product.price)
