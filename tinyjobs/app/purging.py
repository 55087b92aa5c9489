"""Deleting old jobs by hand, for threads and for event loops. A worker does it by itself, as `retention=` says."""

from collections.abc import Sequence
from datetime import timedelta

from tinyjobs.app.access import StoreAccess
from tinyjobs.app.settings import AppSettings
from tinyjobs.core.retention import Purged, check_age, check_final_statuses, chosen_rules
from tinyjobs.core.status import JobStatus
from tinyjobs.runtime.purging import block, purge


class Purging:
    """The part of an app that deletes."""

    _access: StoreAccess
    _settings: AppSettings

    def purge(
        self,
        *,
        older_than: float | timedelta | None = None,
        statuses: str | Sequence[str] = (),
        dry_run: bool = False,
    ) -> Purged:
        """Delete jobs that ended so long ago, with their history; without `older_than` by the app's retention.

        Of every final status, or of those named. In short writes, each of which stays if a later one fails. With
        `dry_run` nothing is deleted, and the answer says what would be.
        """
        rules = self._rules(older_than, statuses)
        return self._access.run(
            "await app.apurge(…)", lambda store: purge(store, rules, rest=block, is_dry_run=dry_run)
        )

    async def apurge(
        self,
        *,
        older_than: float | timedelta | None = None,
        statuses: str | Sequence[str] = (),
        dry_run: bool = False,
    ) -> Purged:
        """The same from an event loop."""
        rules, rest = self._rules(older_than, statuses), self._settings.clock.sleep
        return await self._access.arun(lambda store: purge(store, rules, rest=rest, is_dry_run=dry_run))

    def _rules(self, older_than: object, statuses: object) -> dict[JobStatus, float]:
        age = None if older_than is None else check_age(older_than, "app.purge(): older_than")
        named = check_final_statuses(statuses, "app.purge(): statuses") if statuses else ()
        return chosen_rules(self._settings.retention, age, named)
