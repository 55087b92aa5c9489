"""What a project mounts for monitoring: `path("tinyjobs/", include("tinyjobs.urls"))`."""

from django.urls import path

from tinyjobs.views.health import health
from tinyjobs.views.metrics import metrics

app_name = "tinyjobs"
urlpatterns = [
    path("health/", health, name="health"),
    path("metrics", metrics, name="metrics"),
]
