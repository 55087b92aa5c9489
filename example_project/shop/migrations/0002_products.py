"""A few products, so that the first page is not an empty one."""

from decimal import Decimal

from django.db import migrations

PRODUCTS = [
    ("Coffee, 250 g", "7.90", 40),
    ("Drip kettle", "34.00", 12),
    ("Filter papers, 100", "3.20", 60),
    ("Hand grinder", "49.50", 5),
    ("Mug", "9.80", 25),
]


def add(apps, schema_editor):
    product = apps.get_model("shop", "Product")
    for name, price, stock in PRODUCTS:
        product.objects.get_or_create(name=name, defaults={"price": Decimal(price), "stock": stock})


class Migration(migrations.Migration):
    dependencies = [("shop", "0001_initial")]
    operations = [migrations.RunPython(add, migrations.RunPython.noop)]
