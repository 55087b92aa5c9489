"""`manage.py demo`: the whole story in one go. Ends with status 1 when something is not as it should be."""

import time
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError

from shop.demo.story import Story
from shop.demo.workers import DemoFailed, ending_in_order


class Command(BaseCommand):
    help = "Places orders, kills a worker in the middle of a job, lets another one finish, and checks the outcome."

    def handle(self, *args: Any, **options: Any) -> None:
        began = time.monotonic()
        try:
            with ending_in_order():
                found = Story(self._say).tell()
        except DemoFailed as failure:
            raise CommandError(str(failure)) from failure
        except OperationalError as error:
            reason = str(error).strip().partition("\n")[0]
            raise CommandError(f"The database cannot be used: {reason}. SHOP_DATABASE says where it is.") from error
        if found:
            raise CommandError("That is not as it should be:\n" + "\n".join(f"  {complaint}" for complaint in found))
        self._say(
            "They left no job. Every job of a committed order was done; the one whose worker was killed ran again; "
            "each export came through at its third try."
        )
        self._say(self.style.SUCCESS(f"All is as it should be, after {time.monotonic() - began:.0f} s."))

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()
