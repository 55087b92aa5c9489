"""The command line of the project in which the documentation's code blocks run."""

import os
import sys

if __name__ == "__main__":
    os.environ["DJANGO_SETTINGS_MODULE"] = "mysite.settings"
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)
