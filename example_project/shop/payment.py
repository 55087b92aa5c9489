"""A stand-in for a payment provider. It turns down every customer whose address begins with `declined`."""

from decimal import Decimal


class PaymentDeclined(Exception):
    """The provider says no."""


def authorise(email: str, amount: Decimal) -> None:
    """Reserve the amount, or raise."""
    if email.startswith("declined"):
        raise PaymentDeclined(f"The payment of {amount} was declined.")
