"""The table of orders."""

from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    operations = [
        migrations.CreateModel(
            name="Order",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("email", models.EmailField(default="customer-1@example.com", max_length=254)),
                ("total", models.DecimalField(max_digits=8, decimal_places=2, default=0)),
                ("receipt_sent", models.BooleanField(default=False)),
            ],
        ),
    ]
