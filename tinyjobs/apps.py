"""The Django app. Loading it makes no query, opens nothing and starts no thread."""

from django.apps import AppConfig
from django.db.models.signals import post_migrate
from django.utils.translation import gettext_lazy as _


class TinyJobsConfig(AppConfig):
    """tinyjobs in `INSTALLED_APPS`."""

    name = "tinyjobs"
    label = "tinyjobs"
    verbose_name = _("Background jobs")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the checks and what completes a database after `migrate`."""
        import django.tasks  # noqa: F401 - its own import registers the check that asks every task backend

        import tinyjobs.checks  # noqa: F401
        from tinyjobs.taskbackend.layout import complete_layout

        post_migrate.connect(complete_layout, sender=self, dispatch_uid="tinyjobs.complete_layout")
