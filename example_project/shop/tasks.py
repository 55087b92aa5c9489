"""What happens after an order, outside of the request that placed it.

A job runs at least once. It runs again when it fails and has attempts left, and also when a worker dies after the
work was done and before that could be recorded. So each of these functions may be run twice for the same order and
leaves behind what one run would have left: every one shows another way to get there.
"""

import asyncio
import json
import os
import time
from pathlib import Path

from django.conf import settings
from django.core.mail import EmailMessage
from django.db.models import F
from django.template.loader import render_to_string
from django.utils import timezone

from shop import warehouse
from shop.models import Order, StockExport
from tinyjobs import task


@task(max_attempts=5, retry_base=2.0)
def send_receipt(reference: str) -> str:
    """Mail the receipt.

    A mail cannot be taken back, so the task notes that it was sent and looks for that note first. A worker that dies
    between the two lines marked below makes the next run send a second mail. No queue can close that gap for a system
    that is not part of its transaction; what can be done is to make the second mail harmless. This one carries the
    same Message-ID as the first, by which mail programs know it for a copy.
    """
    order = Order.objects.get(pk=reference)
    if order.receipt_sent_at is not None:
        return "had been sent"
    message = EmailMessage(
        subject=f"Your order {order.reference}",
        body=render_to_string("shop/receipt.txt", {"order": order, "lines": order.lines.select_related("product")}),
        to=[order.customer_email],
        headers={"Message-ID": f"<receipt-{order.reference}@example.com>"},
    )
    message.send()  # the one line
    Order.objects.filter(pk=reference).update(receipt_sent_at=timezone.now())  # the other line
    return "sent"


# Two attempts are not for errors of the rendering, which would only come again. They are for a worker that vanishes:
# a lost attempt counts, and with max_attempts=1 the job would end as failed.
@task(max_attempts=2)
def render_invoice(reference: str) -> str:
    """Render the invoice to a file.

    The file is named after the order and comes into place whole or not at all, so a second run puts the same file in
    the place of the first.
    """
    order = Order.objects.get(pk=reference)
    page = render_to_string("shop/invoice.html", {"order": order, "lines": order.lines.select_related("product")})
    time.sleep(settings.SHOP_INVOICE_SECONDS)
    target = settings.VAR / "invoices" / f"{reference}.html"
    _replace(target, page)
    return target.name


@task(
    max_attempts=5,
    # Only what another try can mend. Any other error fails the job at once.
    retry_on=(warehouse.WarehouseUnavailable,),
    retry_base=0.5,
    timeout=30,
)
def export_stock(reference: str) -> str:
    """Tell the warehouse what is left of the products in the order.

    Reads the stock as it is when it runs, so a late or second run says what is true then.
    """
    export = StockExport.objects.get(pk=reference)
    if export.delivered_at is not None:
        return "had been delivered"
    # Committed on its own, since there is no transaction around a task: a failing try has been counted all the same.
    StockExport.objects.filter(pk=reference).update(tries=F("tries") + 1)
    export.refresh_from_db()
    lines = export.order.lines.select_related("product").order_by("product__name")
    text = "".join(f"{line.product.name};{line.product.stock}\n" for line in lines)
    warehouse.deliver(text, settings.VAR / "exports" / f"{reference}.csv", number_of_try=export.tries)
    StockExport.objects.filter(pk=reference).update(delivered_at=timezone.now())
    return f"delivered at try {export.tries}"


@task(max_attempts=3, timeout=10)
async def publish_order(reference: str) -> str:
    """Write the order for the feed that other programs read.

    An `async def` task shares the worker's event loop with many others, so it awaits what takes time and hands what
    blocks to a thread. Its timeout really ends it, where a function in a thread could only be given up on.
    """
    order = await Order.objects.aget(pk=reference)
    lines = [
        {"product": line.product.name, "quantity": line.quantity}
        async for line in order.lines.select_related("product").order_by("product__name")
    ]
    text = json.dumps({"reference": order.reference, "lines": lines}, indent=2)
    target = settings.VAR / "feed" / f"{reference}.json"
    await asyncio.to_thread(_replace, target, text)
    return target.name


def _replace(target: Path, text: str) -> None:
    """Write a file so that whoever reads it sees the old one or the new one, and never half of one."""
    target.parent.mkdir(parents=True, exist_ok=True)
    # The process in the name: two runs of one job, on two workers, write to two files.
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    draft.write_text(text, "utf-8")
    draft.replace(target)
