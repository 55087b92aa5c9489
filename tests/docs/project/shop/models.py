"""An order, as far as the documentation's examples need one."""

from django.db import models


class Order(models.Model):
    email = models.EmailField(default="customer-1@example.com")
    total = models.DecimalField(max_digits=8, decimal_places=2, default=0)
    receipt_sent = models.BooleanField(default=False)

    class Meta:
        app_label = "shop"
