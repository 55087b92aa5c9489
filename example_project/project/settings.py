"""Settings of the example shop. What is particular to tinyjobs is `INSTALLED_APPS`, `TASKS` and the SQLite options."""

import os
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import django

BASE_DIR = Path(__file__).resolve().parent.parent

# Everything the shop writes goes here: the database, mails, invoices, exports.
VAR = Path(os.environ.get("SHOP_VAR", BASE_DIR / "var"))
VAR.mkdir(parents=True, exist_ok=True)

# Good enough for an example on your own machine, and for nothing else.
SECRET_KEY = "an example has no secrets"
DEBUG = os.environ.get("SHOP_DEBUG", "1") == "1"
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]", "testserver"]

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "tinyjobs",
    "shop",
]

# Jobs are kept in DATABASES["default"], beside the shop's own tables: that is what lets an order and its jobs be
# written, or rolled back, together.
TASKS = {"default": {"BACKEND": "tinyjobs.TinyJobsBackend"}}

# With SHOP_REDIS=redis://host:6379/0 jobs are in that Redis instead. They are then sent when an order's transaction has
# committed. The client is installed by `pip install redis`. Tests do without: in the test database, jobs go with the
# rest of it when a test is over.
if os.environ.get("SHOP_REDIS") and "test" not in sys.argv:
    TASKS["default"]["OPTIONS"] = {
        "url": os.environ["SHOP_REDIS"],
        "prefix": os.environ.get("SHOP_PREFIX", "shop"),  # what the names of the keys begin with
    }

SQLITE = {
    "ENGINE": "django.db.backends.sqlite3",
    "NAME": VAR / "shop.sqlite3",
    "OPTIONS": {
        # A transaction that reads first and writes later has to change from reader to writer half-way. If a worker
        # wrote in between, SQLite refuses that at once, without waiting: "database is locked". IMMEDIATE takes the
        # write lock at the start instead, and waits for it.
        "transaction_mode": "IMMEDIATE",
        # How many seconds to wait for that lock.
        "timeout": 20,
        # In WAL mode readers and the one writer do not hold each other up.
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL",
    },
}

# With SHOP_DATABASE=postgresql://user:password@host/shop the shop is on Postgres instead, where nothing has to be set
# for tinyjobs. The driver is installed by `pip install "psycopg[binary,pool]"`.
ADDRESS = os.environ.get("SHOP_DATABASE", "")
try:
    PLACE = urlsplit(ADDRESS)
    PORT = PLACE.port or ""
    IS_POSTGRES = PLACE.scheme in ("postgresql", "postgres")
except ValueError:  # a port that is no number, for instance
    IS_POSTGRES = False
if ADDRESS and not IS_POSTGRES:
    sys.exit("SHOP_DATABASE has to be an address such as postgresql://user:password@host:5432/shop.")
POSTGRES = {
    "ENGINE": "django.db.backends.postgresql",
    "NAME": unquote(PLACE.path[1:]),
    "USER": unquote(PLACE.username or ""),
    "PASSWORD": unquote(PLACE.password or ""),
    "HOST": unquote(PLACE.hostname or ""),
    "PORT": PORT,
}

DATABASES = {"default": POSTGRES if ADDRESS else SQLITE}

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
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
            ],
        },
    },
]

ROOT_URLCONF = "project.urls"
WSGI_APPLICATION = "project.wsgi.application"
STATIC_URL = "static/"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TIME_ZONE = "UTC"

# Mails become files.
if django.VERSION >= (6, 1):
    MAILERS = {
        "default": {
            "BACKEND": "django.core.mail.backends.filebased.EmailBackend",
            "OPTIONS": {"file_path": VAR / "mail"},
        }
    }
else:
    EMAIL_BACKEND = "django.core.mail.backends.filebased.EmailBackend"
    EMAIL_FILE_PATH = VAR / "mail"
DEFAULT_FROM_EMAIL = "shop@example.com"

# How many seconds an invoice takes to render. The demo makes it long in the worker that it is going to kill.
SHOP_INVOICE_SECONDS = float(os.environ.get("SHOP_INVOICE_SECONDS", "0"))
