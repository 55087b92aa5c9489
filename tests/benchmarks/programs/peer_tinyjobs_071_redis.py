"""The public engine `tinyjobs==0.7.1` with its Redis store."""

from __future__ import annotations

from measuring import main
from peer_tinyjobs_071 import PublicTinyJobs


class PublicTinyJobsOnRedis(PublicTinyJobs):
    def _of(self, *statuses: str) -> int:
        counts = self.app.counts()
        return sum(counts.get(status, 0) for status in statuses)

    def unfinished(self) -> bool:
        return self._of("queued", "running") > 0

    def finished(self) -> int | None:
        return self._of("success")


if __name__ == "__main__":
    main(PublicTinyJobsOnRedis)
