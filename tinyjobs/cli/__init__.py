"""The command line: one table of commands and options for `python -m tinyjobs` and for `manage.py tinyjobs`."""
