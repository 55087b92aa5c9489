"""The tasks that the documentation's examples send."""

from tinyjobs import task


@task
def send_receipt(order_id):
    return f"receipt of {order_id}"


@task(max_attempts=3)
def rebuild_index(name="all"):
    return name
