"""A database router for projects whose jobs are not in `default`: the models of tinyjobs go where the jobs are.

Enqueues, results, commands and workers need no router; they follow the settings. It is for code that reads the models,
such as a report, and for `migrate`, which otherwise makes the tables in every database that it is run on.
"""

from typing import Any

from django.db.models import Model

from tinyjobs.taskbackend.backend import our_settings
from tinyjobs.taskbackend.layout import APP


class JobsRouter:
    """For `DATABASE_ROUTERS`. Has no opinion on other apps, nor where several databases hold jobs."""

    def db_for_read(self, model: type[Model], **hints: Any) -> str | None:
        """The database that holds the jobs, never a replica of it."""
        if model._meta.app_label != APP:  # told first: this is asked for every query of every model
            return None
        databases = _databases()
        return databases.pop() if len(databases) == 1 else None

    def db_for_write(self, model: type[Model], **hints: Any) -> str | None:
        """The same."""
        return self.db_for_read(model, **hints)

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool | None:
        """Whether jobs are kept there. Where no database holds any, all may have the tables."""
        databases = _databases() if app_label == APP else None
        return db in databases if databases else None


def _databases() -> set[str]:
    return {settings.database for settings in our_settings() if settings.database is not None}
