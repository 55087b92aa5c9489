"""Holds every key of a store's against the jobs' hashes: nothing missing, nothing left over, no figure wrong.

Written from the data model and not from the scripts. It reads many keys one after the other, so nobody may write
meanwhile.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

FINAL = ("success", "failed", "cancelled")
STATUSES = ("queued", "running", *FINAL)
#: Keys that hold nothing about jobs, or what goes by itself.
ASIDE = ("meta", "asleep", "claimed:", "void:", "schedule:", "schedules")
NO_SCORE = 0.0
#: For what stands nowhere else, as the end of a lease.
ANY_SCORE = float("inf")
#: Three counts, two sums and two largest values.
A_TALLY = re.compile(r"\d+ \d+ \d+( \d+\.\d{6}){4}")
LONGEST_KEPT = 2 * 86_400

type Sets = dict[str, dict[str, float]]


def assert_consistent(url: str, prefix: str = "tinyjobs") -> int:
    """Fail with what is wrong in the store at that URL. Returns how many jobs there are."""
    wrong, jobs = inspect(url, prefix)
    assert not wrong, "\n".join(wrong[:50])
    return jobs


def inspect(url: str, prefix: str = "tinyjobs") -> tuple[list[str], int]:
    """What is wrong in the store, in words, and how many jobs there are."""
    client = redis.Redis.from_url(url, retry=Retry(NoBackoff(), 0))
    try:
        return _Inspection(client, f"{{{prefix}}}:").run()
    finally:
        client.close()


class _Inspection:
    def __init__(self, client: Any, prefix: str) -> None:
        self.client = client
        self.prefix = prefix
        self.wrong: list[str] = []
        self.keys = {key.decode().removeprefix(prefix) for key in client.scan_iter(match=f"{prefix}*", count=1_000)}
        self.expected: Sets = defaultdict(dict)
        self.counts: dict[str, Counter[str]] = {"counts": Counter(), "queued_tasks": Counter()}
        self.holders: dict[str, str] = {}
        self.ready: set[str] = set()
        self.jobs: dict[str, dict[str, str]] = {}

    def run(self) -> tuple[list[str], int]:
        ids = sorted(key.removeprefix("job:") for key in self.keys if key.startswith("job:"))
        with self.client.pipeline(transaction=False) as pipeline:
            for job_id in ids:
                pipeline.hgetall(f"{self.prefix}job:{job_id}")
            together = pipeline.execute()
        self.jobs = {job_id: _text(pairs) for job_id, pairs in zip(ids, together, strict=True)}
        for job_id, job in self.jobs.items():
            self.expect(job_id, job)
        self.compare_sets()
        self.compare_counts()
        self.compare_holders()
        self.compare_executions(set(ids))
        self.compare_schedules()
        self.compare_workers()
        self.compare_tallies()
        known = {"counts", "queued_tasks", "ready_queues", *self.expected}
        known |= {f"job:{job_id}" for job_id in ids} | {f"executions:{job_id}" for job_id in ids}
        known |= {f"dedup:{key}" for key in self.holders} | {"workers", "workers_seen"}
        known |= {key for key in self.keys if key.startswith("tally:")}
        for key in sorted(self.keys - known):
            if not key.startswith(ASIDE):
                self.wrong.append(f"{key} is nobody's")
        return self.wrong, len(ids)

    # --- what there should be ---

    def expect(self, job_id: str, job: Mapping[str, str]) -> None:
        status, queue = job.get("status", ""), job.get("queue", "")
        if status not in STATUSES or not queue or not job.get("task"):
            self.wrong.append(f"job {job_id} is not whole: {dict(job)}")
            return
        self.expected["index:all"][job_id] = NO_SCORE
        self.expected[f"index:queue:{queue}"][job_id] = NO_SCORE
        {"queued": self.expect_queued, "running": self.expect_running}.get(status, self.expect_ended)(job_id, job)
        if status not in FINAL and (key := job.get("key")) is not None:
            if key in self.holders:
                self.wrong.append(f"the key {key} is held by {self.holders[key]} and by {job_id}")
            self.holders[key] = job_id

    def expect_queued(self, job_id: str, job: Mapping[str, str]) -> None:
        queue, run_at = job["queue"], float(job["run_at"])
        if not job.get("delayed"):
            self.expected[f"ready:{queue}"][f"{run_at:020.7f}|{job_id}"] = -float(job["priority"])
            self.ready.add(queue)
        else:
            self.expected["due"][f"{len(job_id.encode())}:{job_id}{queue}"] = run_at
            self.counts["counts"][f"delayed|{queue}"] += 1
        self.counts["queued_tasks"][job["task"]] += 1
        self.expected["index:status:queued"][job_id] = NO_SCORE
        if job.get("expires_at") and job.get("claims", "0") == job.get("hand_backs", "0"):
            self.expected["lapses"][job_id] = float(job["expires_at"])

    def expect_running(self, job_id: str, job: Mapping[str, str]) -> None:
        self.expected["leases"][job_id] = ANY_SCORE
        self.counts["counts"][f"running|{job['queue']}"] += 1
        if not (
            job.get("worker_id")
            and job.get("started_at")
            and int(job.get("claims", 0)) > 0 < int(job.get("attempts", 0))
        ):
            self.wrong.append(f"job {job_id} runs without a worker, a start or a claim: {dict(job)}")

    def expect_ended(self, job_id: str, job: Mapping[str, str]) -> None:
        status, ended = job["status"], float(job.get("finished_at") or "nan")
        self.expected[f"finished:{status}"][job_id] = ended
        self.expected[f"index:status:{status}"][job_id] = NO_SCORE
        if status == "success" and "result" in job:
            self.expected[f"results:{job['task']}"][job_id] = ended

    # --- and what there is ---

    def compare_sets(self) -> None:
        kinds = ("index:", "ready:", "finished:", "results:")
        found = {key for key in self.keys if key.startswith(kinds) or key in ("due", "lapses", "leases")}
        for key in sorted(found | self.expected.keys()):
            if key in self.expected or self.kind_of(key) == b"zset":
                self.compare(key, self.sorted_set(key), self.expected.get(key, {}))
        # An empty queue is taken out by the next claim that meets it.
        for queue in sorted(self.ready - self.sorted_set("ready_queues").keys()):
            self.wrong.append(f"ready_queues has no {queue}, which has ready jobs")

    def compare(self, key: str, found: Mapping[str, float], expected: Mapping[str, float]) -> None:
        for member in sorted(expected.keys() - found.keys()):
            self.wrong.append(f"{key} has no {member}")
        for member in sorted(found.keys() - expected.keys()):
            self.wrong.append(f"{key} has {member}, which does not belong there")
        for member in sorted(expected.keys() & found.keys()):
            if expected[member] not in (found[member], ANY_SCORE):
                self.wrong.append(f"{key} has {member} at {found[member]!r} instead of {expected[member]!r}")

    def compare_counts(self) -> None:
        for key, expected in self.counts.items():
            found = {name: float(number) for name, number in self.hash(key).items()}
            self.compare(key, found, {name: float(number) for name, number in expected.items()})

    def compare_holders(self) -> None:
        found = {
            key.removeprefix("dedup:"): (self.client.get(self.prefix + key) or b"").decode()
            for key in self.keys
            if key.startswith("dedup:")
        }
        for key in sorted(found.keys() | self.holders.keys()):
            if found.get(key) != self.holders.get(key):
                self.wrong.append(f"dedup:{key} is {found.get(key)!r} instead of {self.holders.get(key)!r}")

    def compare_executions(self, ids: set[str]) -> None:
        for key in sorted(self.keys):
            job_id = key.removeprefix("executions:")
            if job_id != key and job_id in ids:
                claims = int(self.jobs[job_id].get("claims", "0"))
                if beyond := [claim for claim in self.hash(key) if not 0 < int(claim) <= claims]:
                    self.wrong.append(f"{key} has claims that never were: {beyond}")

    def compare_schedules(self) -> None:
        hashes = {key.removeprefix("schedule:"): NO_SCORE for key in self.keys if key.startswith("schedule:")}
        self.compare("schedules", self.sorted_set("schedules"), hashes)

    def compare_workers(self) -> None:
        self.compare("workers_seen", self.sorted_set("workers_seen"), dict.fromkeys(self.hash("workers"), ANY_SCORE))

    def compare_tallies(self) -> None:
        for key in sorted(key for key in self.keys if key.startswith("tally:")):
            tallies = self.hash(key)
            if not 0 < self.client.ttl(self.prefix + key) < LONGEST_KEPT and self.client.exists(self.prefix + key):
                self.wrong.append(f"{key} is kept for {self.client.ttl(self.prefix + key)} s")
            for queue, text in tallies.items():
                if not A_TALLY.fullmatch(text) or not set(text) - set("0. ") or int(key[6:]) % 60:
                    self.wrong.append(f"{key} has {text!r} for {queue}")

    def hash(self, key: str) -> dict[str, str]:
        return _text(self.client.hgetall(self.prefix + key))

    def sorted_set(self, key: str) -> dict[str, float]:
        return {
            member.decode(): score for member, score in self.client.zrange(self.prefix + key, 0, -1, withscores=True)
        }

    def kind_of(self, key: str) -> bytes:
        return bytes(self.client.type(self.prefix + key))


def _text(pairs: Mapping[bytes, bytes]) -> dict[str, str]:
    return {name.decode(): value.decode("utf-8", "replace") for name, value in pairs.items()}
