"""What a page was asked for: the query of its address, cleaned of what no store can look for."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tinyjobs.core.ids import is_job_id
from tinyjobs.core.status import JobStatus

#: The most characters of a filter that are looked at. No name is longer.
LONGEST = 255


class NotThere(LookupError):
    """What the page is about is not there."""


@dataclass(frozen=True, kw_only=True)
class Query:
    """The parameters of an address. Anything may stand in them, so what cannot be meant counts as not given.

    `sees_values`: whether whoever asks may see arguments. Else nothing may depend on them, what is found included.
    """

    given: Mapping[str, str] = field(default_factory=dict)
    sees_values: bool = True

    def text(self, name: str) -> str | None:
        """A text without control characters at its ends, or None."""
        value = self.given.get(name, "").replace("\x00", "").strip()[:LONGEST]
        return value or None

    def status(self) -> JobStatus | None:
        """The status that was chosen."""
        value = self.text("status")
        return JobStatus(value) if value in set(JobStatus) else None

    def cursor(self) -> str | None:
        """Where the page before ended."""
        value = self.text("cursor")
        return value if value is not None and is_job_id(value) else None

    def number(self, name: str, default: int, most: int) -> int:
        """A whole number from 1 to `most`."""
        value = self.text(name)
        if value is None or not value.isascii() or not value.isdecimal() or len(value) > 9:
            return default
        return min(max(int(value), 1), most)

    def flag(self, name: str) -> bool:
        """Whether something was switched on."""
        return self.text(name) == "1"
