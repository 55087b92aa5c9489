"""Django's own tests of its tasks framework, run against this checkout: see run.py."""
