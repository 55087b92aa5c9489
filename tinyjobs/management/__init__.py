"""What Django's `manage.py` finds here."""
