"""The order form: how many of each product, and who wants them."""

from collections.abc import Sequence

from django import forms

from shop.models import Product


class OrderForm(forms.Form):
    email = forms.EmailField(label="Your e-mail address", initial="customer-1@example.com")

    def __init__(self, products: Sequence[Product], *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self.products = products
        for product in products:
            self.fields[self._name(product)] = forms.IntegerField(
                label=product.name, min_value=0, max_value=1_000, initial=0, required=False
            )

    @staticmethod
    def _name(product: Product) -> str:
        return f"quantity-{product.pk}"

    def rows(self) -> list[tuple[Product, forms.BoundField]]:
        """Each product with its field."""
        return [(product, self[self._name(product)]) for product in self.products]

    def clean(self) -> None:
        """Fill `wanted`: quantities by primary key, of what was asked for."""
        given = super().clean() or self.cleaned_data
        quantities = {product.pk: given.get(self._name(product)) or 0 for product in self.products}
        self.wanted = {key: quantity for key, quantity in quantities.items() if quantity}
        if not self.wanted and not self.errors:
            raise forms.ValidationError("Choose at least one product.")
