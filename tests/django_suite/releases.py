"""Which Django releases the suite runs, and how many tests each round of it must run.

The one place to edit when Django publishes a release. A number that no longer fits, in either direction, ends the
run with a failure: a test that vanished and a test that nobody has looked at yet are both news.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Release:
    """A pinned source distribution of Django; `expected` is the number of tests run (skips left out) per round."""

    series: str
    version: str
    sha256: str
    expected: dict[str, int] = field(hash=False)

    @property
    def sdist_name(self) -> str:
        return f"django-{self.version}.tar.gz"


RELEASES = {
    release.series: release
    for release in (
        Release(
            series="6.0",
            version="6.0.10",
            sha256="6005d030df924f85088454c18bd35dcf082b058aa355ad3df520d8de9aef9f41",
            expected={
                "control": 76,
                "enqueue": 51,
                "drain": 19,
                "worker": 18,
                "foreign": 70,
                "stand-ins": 71,
                "custom": 9,
            },
        ),
        Release(
            series="6.1",
            version="6.1.3",
            sha256="b5d2d9e35295065d13b1927b3f19a59bd119f737aa6299def14ccca1ae3c8c0d",
            expected={
                "control": 85,
                "enqueue": 56,
                "drain": 19,
                "worker": 18,
                "foreign": 75,
                "stand-ins": 76,
                "custom": 15,
            },
        ),
    )
}
