from django.db import models


class Order(models.Model):
    name = models.CharField(max_length=100)
    note = models.TextField(default="")

    class Meta:
        app_label = "shop"
