"""What one round came to, and whether that is what was expected of it. Pure: values in, values out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.django_suite.releases import Release
from tests.django_suite.rounds import RESTATED


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The tests of one round by their ids, and what is wrong with it in sentences."""

    name: str
    passed: frozenset[str]
    failed: frozenset[str]
    skipped: Mapping[str, str]
    complaints: tuple[str, ...]

    @property
    def skips(self) -> list[str]:
        """The skipped tests with their reasons, without the name of the package."""
        return [f"{test.removeprefix('tasks.')}: {reason}" for test, reason in self.skipped.items()]

    def __str__(self) -> str:
        counts = f"{len(self.passed) + len(self.failed):3} ran, {len(self.skipped)} skipped, {len(self.failed)} failed"
        return f"{self.name:20} {counts}{' <- see below' if self.complaints else ''}"


def judge(release: Release, name: str, seen: Mapping[str, Any] | None, trouble: str | None) -> Outcome:
    """Hold what a round's process wrote (nothing, when it died early) against what the release expects."""
    skipped = dict(seen["skipped"]) if seen else {}
    failed = frozenset(seen["failed"]) if seen else frozenset()
    ran = (frozenset(seen["started"]) | failed) - skipped.keys() if seen else frozenset()
    complaints = [f"failed: {test}" for test in sorted(failed)]
    if trouble:
        complaints.append(trouble)
    if seen and seen["django"] != release.version:
        complaints.append(f"it ran on Django {seen['django']}, not on {release.version}")
    expected = release.expected.get(name)
    if len(ran) != expected:
        complaints.append(f"{len(ran)} tests ran, releases.py expects {expected}")
    complaints += _missing_stand_ins(skipped, ran)
    return Outcome(
        name=f"{release.version} {name}",
        passed=ran - failed,
        failed=failed,
        skipped=skipped,
        complaints=tuple(complaints),
    )


def _missing_stand_ins(skipped: Mapping[str, str], ran: frozenset[str]) -> list[str]:
    names = {test.rpartition(".")[2] for test in ran}
    return [
        f"{test} is said to be re-stated as {stand_in}, which did not run"
        for test, reason in skipped.items()
        if reason.startswith(RESTATED)
        for stand_in in reason.removeprefix(RESTATED).split(", ")
        if stand_in not in names
    ]
