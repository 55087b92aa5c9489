"""The shop's pages."""

from django.urls import path

from shop import views

urlpatterns = [
    path("", views.products, name="products"),
    path("orders/<str:reference>/", views.order, name="order"),
]
