"""The health check of an app, for threads and for event loops."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from tinyjobs.app.access import StoreAccess
from tinyjobs.app.registry import TaskRegistry
from tinyjobs.app.timetable import AppTimetable
from tinyjobs.backends.base import Backend
from tinyjobs.core.errors import SchemaMissingError, StoreError
from tinyjobs.core.watching import Finding
from tinyjobs.operations.check import BUDGET, check, check_max_wait, not_there, out_of_reach, too_slow


class Checking:
    """The part of an app that says whether all is well."""

    _access: StoreAccess
    _registry: TaskRegistry
    _timetable: AppTimetable

    def check(self, *, max_wait: float | None = None, store_warnings: bool = False) -> list[Finding]:
        """What is wrong, then what should be known, then what is in order; each with `ok`, a message and a remedy.

        `max_wait`: for how many seconds a due job may wait. `store_warnings`: what the store's own settings lack is
        a warning. A store that cannot be reached, or is not there, is a finding too, and none is made. Takes as long
        as the store's own timeouts let it.
        """
        check_max_wait(max_wait, "app.check(): max_wait")
        access, instead = self._access, "await app.acheck()"
        try:
            if not access.is_connected:
                access.run(instead, _is_there, cold=True)
            return access.run(instead, lambda store: self._look(store, max_wait, store_warnings))
        except SchemaMissingError as error:
            return [not_there(str(error))]
        except StoreError as error:
            return [out_of_reach(str(error))]

    async def acheck(self, *, max_wait: float | None = None, store_warnings: bool = False) -> list[Finding]:
        """The same from an event loop, within five seconds."""
        check_max_wait(max_wait, "app.acheck(): max_wait")
        try:
            async with asyncio.timeout(BUDGET):
                if not self._access.is_connected:
                    await self._access.arun(_is_there, cold=True)
                return await self._access.arun(lambda store: self._look(store, max_wait, store_warnings))
        except SchemaMissingError as error:
            return [not_there(str(error))]
        except StoreError as error:
            return [out_of_reach(str(error))]
        except TimeoutError:
            return [too_slow()]

    def _look(self, store: Backend, max_wait: float | None, store_warnings: bool) -> Coroutine[Any, Any, list[Finding]]:
        return check(store, self._registry, timetable=self._timetable, max_wait=max_wait, store_warnings=store_warnings)


def _is_there(store: Backend) -> Coroutine[Any, Any, None]:
    return store.check_layout()
