"""The shop's two pages: the products with the order form, and an order with its jobs."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.tasks import default_task_backend
from django.tasks.exceptions import TaskResultDoesNotExist
from django.views.decorators.http import require_http_methods, require_safe

from shop.forms import OrderForm
from shop.models import Order, Product
from shop.orders import OutOfStock, place_order
from shop.payment import PaymentDeclined


@require_http_methods(["GET", "HEAD", "POST"])
def products(request: HttpRequest) -> HttpResponse:
    """Show the products; take an order."""
    form = OrderForm(list(Product.objects.all()), request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            order = place_order(form.cleaned_data["email"], form.wanted)
        except (OutOfStock, PaymentDeclined) as refusal:
            # The transaction was rolled back: there is no order, and no job that would tell a customer of one.
            form.add_error(None, str(refusal))
        else:
            return redirect("order", order.reference)
    status = 400 if form.errors else 200
    return render(request, "shop/products.html", {"form": form, "orders": Order.objects.all()[:10]}, status=status)


@require_safe
def order(request: HttpRequest, reference: str) -> HttpResponse:
    """Show an order and how far its jobs are."""
    found = get_object_or_404(Order, pk=reference)
    context = {
        "order": found,
        "lines": found.lines.select_related("product"),
        "jobs": [_job(purpose, job_id) for purpose, job_id in found.jobs.items()],
    }
    return render(request, "shop/order.html", context)


def _job(purpose: str, job_id: str) -> dict[str, object]:
    try:
        result = default_task_backend.get_result(job_id)
    except TaskResultDoesNotExist:
        return {"purpose": purpose, "status": "gone", "attempts": "", "error": ""}
    error = result.errors[-1].traceback.strip().splitlines()[-1] if result.errors else ""
    return {"purpose": purpose, "status": result.status.label, "attempts": result.attempts, "error": error}
