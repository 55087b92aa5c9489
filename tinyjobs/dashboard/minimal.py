"""A Django that has nothing but the dashboard, for programs without a project of their own.

No database, no users, no sessions. In a process that has a Django already, that one is used as it is; what it lacks
for the pages is named.
"""

import os
from typing import Any
from urllib.parse import quote

import django
from django.conf import settings
from django.urls import get_script_prefix
from django.utils.crypto import get_random_string

from tinyjobs.core.errors import ConfigurationError

#: Hosts that a browser on this machine may name.
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
#: What the pages are made with.
NEEDED = ("tinyjobs", "django.contrib.contenttypes", "django.contrib.auth")


class StaticBelowPrefix:
    """Addresses of style sheets and scripts below wherever the application of this request is mounted.

    Django takes what `STATIC_URL` was below at the first request.
    """

    def url(self, name: str) -> str:
        """The address of a file."""
        return f"{get_script_prefix()}static/{quote(name)}"


def ready_django() -> None:
    """Have a Django to make pages with. Raises `ConfigurationError` if the one that is there cannot."""
    if not settings.configured and not os.environ.get("DJANGO_SETTINGS_MODULE"):
        settings.configure(**_minimal())
    django.setup()
    from django.apps import apps

    lacking = [name for name in NEEDED if not apps.is_installed(name)]
    if not apps.is_installed("django.contrib.admin"):
        lacking.append("django.contrib.admin")
    if lacking:
        raise ConfigurationError(
            f"The Django settings of this process ({settings}) lack {', '.join(lacking)} in INSTALLED_APPS, which the "
            f"dashboard's pages are made with. Add that, or unset DJANGO_SETTINGS_MODULE for a dashboard by itself."
        )


def _minimal() -> dict[str, Any]:
    return {
        # Tokens against forged forms do not outlive the process; a reload of the page gets a new one.
        "SECRET_KEY": get_random_string(50),
        "ALLOWED_HOSTS": [*LOOPBACK],
        "INSTALLED_APPS": [
            "django.contrib.admin.apps.SimpleAdminConfig",
            "django.contrib.auth",
            "django.contrib.contenttypes",
            "django.contrib.messages",
            "django.contrib.staticfiles",
            "tinyjobs",
        ],
        "DATABASES": {},
        "MIDDLEWARE": [],
        "ROOT_URLCONF": "",
        "STATIC_URL": "static/",
        "STORAGES": {"staticfiles": {"BACKEND": "tinyjobs.dashboard.minimal.StaticBelowPrefix"}},
        "USE_TZ": True,
        "TIME_ZONE": "UTC",
        "TEMPLATES": [
            {
                "BACKEND": "django.template.backends.django.DjangoTemplates",
                "APP_DIRS": True,
                "OPTIONS": {
                    "context_processors": [
                        "django.template.context_processors.request",
                        "django.contrib.messages.context_processors.messages",
                    ]
                },
            }
        ],
        "LOGGING_CONFIG": None,
    }
