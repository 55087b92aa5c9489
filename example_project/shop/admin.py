"""The shop in the admin."""

from django.contrib import admin
from django.http import HttpRequest
from django.utils.html import format_html_join

from shop.models import Order, OrderLine, Product, StockExport

admin.site.site_header = admin.site.site_title = "The example shop"


@admin.register(Product)
class ProductAdmin(admin.ModelAdmin):
    list_display = ["name", "price", "stock"]
    list_editable = ["stock"]
    search_fields = ["name"]


class OrderLineInline(admin.TabularInline):
    model = OrderLine
    extra = 0
    readonly_fields = ["product", "quantity", "unit_price"]
    can_delete = False

    def has_add_permission(self, request: HttpRequest, obj: Order | None = None) -> bool:
        return False


@admin.register(Order)
class OrderAdmin(admin.ModelAdmin):
    list_display = ["reference", "customer_email", "placed_at", "total", "receipt_sent_at"]
    search_fields = ["reference", "customer_email"]
    date_hierarchy = "placed_at"
    readonly_fields = ["placed_at", "receipt_sent_at", "ids_of_jobs"]
    inlines = [OrderLineInline]

    def get_queryset(self, request: HttpRequest):
        return super().get_queryset(request).prefetch_related("lines")

    @admin.display(description="Jobs")
    def ids_of_jobs(self, order: Order) -> str:
        """How far they are is on the order's page in the shop, which the button at the top leads to."""
        return format_html_join("", "<div>{}: <code>{}</code></div>", order.jobs.items())

    def has_add_permission(self, request: HttpRequest) -> bool:
        # An order added by hand would have no jobs. Orders are placed in the shop.
        return False


@admin.register(StockExport)
class StockExportAdmin(admin.ModelAdmin):
    list_display = ["order", "tries", "delivered_at"]
    readonly_fields = ["order", "tries", "delivered_at"]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False
