"""What the settings of every store share. A store's module imports all of this and adds `DATABASES`."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path


def run_directory() -> Path:
    """Return the directory for this run's files: made, and removed in the end, by the first process that asks.

    Processes that tests start inherit its name and use the same one.
    """
    known = os.environ.get("TINYJOBS_TEST_DIRECTORY")
    if known:
        return Path(known)
    made = tempfile.mkdtemp(prefix="tinyjobs-tests-")
    os.environ["TINYJOBS_TEST_DIRECTORY"] = made
    owner = os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # a forked child inherits this handler
            shutil.rmtree(made, ignore_errors=True)

    atexit.register(remove)
    return Path(made)


SECRET_KEY = "for the test suite only"
DEBUG = False
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "tests.settings.urls"
STATIC_URL = "/static/"
USE_TZ = True
TIME_ZONE = "UTC"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "tinyjobs",
    "tests.taskbackend.shop",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.middleware.csp.ContentSecurityPolicyMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]

# As strict as it gets: nothing inline, nothing from elsewhere.
SECURE_CSP = {
    "default-src": ["'self'"],
    "object-src": ["'none'"],
    "base-uri": ["'none'"],
    "frame-ancestors": ["'none'"],
}

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

TASKS = {"default": {"BACKEND": "tinyjobs.TinyJobsBackend"}}
