"""A project that has the admin."""

from pathlib import Path

from tests.docs.scene import begin

with Path("mysite/settings.py").open("a", encoding="utf-8") as file:
    file.write(
        """
INSTALLED_APPS += [f"django.contrib.{name}" for name in ("admin", "messages", "sessions")]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
"""
    )
begin()
