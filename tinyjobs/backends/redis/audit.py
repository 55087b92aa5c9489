"""How a Redis is configured, held against what the guarantees need: one INFO, and what follows from it.

Knows no connection beyond the command it sends. What the server does not tell is reported as not checked.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tinyjobs.backends.auditing import SETTINGS, AuditReport
from tinyjobs.backends.redis.link import Link
from tinyjobs.backends.redis.server import read_info
from tinyjobs.core.errors import StoreError
from tinyjobs.core.sentences import Sentence, join, say
from tinyjobs.core.watching import Finding

# The share of its memory from which a server is as good as full.
_FULL = 0.9
_YES_OR_NO = {"0": "no", "1": "yes"}
_STATUSES = ("ok", "err")


@dataclass(slots=True)
class _Report(AuditReport):
    told: Mapping[str, str]

    def one_of(self, name: str, known: Mapping[str, str] | tuple[str, ...]) -> str | None:
        """What INFO tells under a name; None, and noted as unknown, for nothing or for what is none of those."""
        value = self.told.get(name)
        if value in known:
            return value
        self.unknown.append(name)
        return None

    def number(self, name: str) -> int | None:
        value = self.told.get(name, "")
        if value.isascii() and value.isdecimal():
            return int(value)
        self.unknown.append(name)
        return None


async def audit(link: Link) -> list[Finding]:
    """The problems, then what the server runs with. A user who may not ask is told so, and nothing fails."""
    try:
        told = read_info(await link.command("INFO"))
    except StoreError as error:
        if type(error) is not StoreError:
            raise
        return [
            Finding(
                name=SETTINGS,
                ok=True,
                is_unknown=True,
                message=say("Not checked: the server does not say how it is set up. %(error)s", error=str(error)),
                remedy=say("Grant the user of the store's URL the command INFO (+info)."),
            )
        ]
    return findings(told)


def findings(told: Mapping[str, str]) -> list[Finding]:
    """What follows from the fields of an INFO."""
    report = _Report(told)
    for look in _LOOKS:
        look(report)
    parts: list[Sentence] = []
    if report.runs_with:
        parts.append(say("The server runs with %(settings)s.", settings=join(report.runs_with)))
    if report.unknown:
        parts.append(say("Not checked, as INFO does not tell: %(settings)s.", settings=join(report.unknown)))
    message = join(parts, " ")
    return report.ended(message)


def _role(report: _Report) -> None:
    role = report.one_of("role", ("master", "slave"))
    if role == "slave":
        primary = ":".join(filter(None, (report.told.get("master_host"), report.told.get("master_port"))))
        report.fail(
            "role",
            say("The server is a replica, which takes no writes."),
            say("Give the URL of the primary, %(primary)s, or of a name that follows it.", primary=primary)
            if primary
            else say("Give the URL of the primary, or of a name that follows it."),
        )
    elif role:
        report.runs_with.append(say("the role of a primary"))


def _appendonly(report: _Report) -> None:
    enabled = report.one_of("aof_enabled", _YES_OR_NO)
    if enabled is None:
        return
    if enabled == "0":
        report.fail(
            "appendonly",
            say("appendonly is off: on snapshots alone a crash loses the jobs that were sent since the last one."),
            say("Set appendonly to yes, by CONFIG SET and in redis.conf, with appendfsync everysec or always."),
        )
        return
    report.runs_with.append("appendonly yes")
    if report.one_of("aof_last_write_status", _STATUSES) == "err":
        report.fail(
            "appendonly_write",
            say("The last write to the append-only file failed, and the server takes no writes until one succeeds."),
            say("Look in the server's log; often its disk is full or its directory cannot be written."),
        )


def _snapshots(report: _Report) -> None:
    status = report.one_of("rdb_last_bgsave_status", _STATUSES)
    if status == "err":
        report.fail(
            "snapshots",
            say("The last snapshot failed: while save points are configured the server refuses every write (MISCONF)."),
            say(
                "Look in the server's log; often its disk is full, its directory cannot be written, or it has too "
                "little memory to fork (vm.overcommit_memory). Then call BGSAVE."
            ),
        )
    elif status:
        report.runs_with.append(say("the last snapshot ok"))


def _eviction(report: _Report) -> None:
    limit, policy = report.number("maxmemory"), report.told.get("maxmemory_policy", "")
    if not policy.startswith(("noeviction", "allkeys-", "volatile-")):
        report.unknown.append("maxmemory_policy")
    elif limit and policy.startswith("allkeys-"):
        report.fail(
            "eviction",
            say(
                "maxmemory-policy is %(policy)s: when its memory is full the server drops jobs without a word.",
                policy=policy,
            ),
            say("Set maxmemory-policy to noeviction, by CONFIG SET and in redis.conf."),
        )
    else:
        kept = [say("(when it is full jobs stay, figures may go)")] if policy.startswith("volatile-") else []
        report.runs_with.append(join([f"maxmemory-policy {policy}", *kept], " "))


def _memory(report: _Report) -> None:
    limit, used = report.told.get("maxmemory", ""), report.number("used_memory")
    if used is None or not (limit.isascii() and limit.isdecimal()):
        return
    if limit == "0":
        report.runs_with.append(say("no maxmemory"))
        return
    share = used / int(limit)
    if share >= _FULL:
        report.fail(
            "memory",
            say(
                "The server uses %(used)s bytes of its %(limit)s (maxmemory), %(share)s: when they are used up, "
                "jobs are refused (OOM), or dropped where maxmemory-policy lets it.",
                used=f"{used:,}",
                limit=f"{int(limit):,}",
                share=f"{share:.0%}",
            ),
            say("Raise maxmemory, or have ended jobs purged sooner (retention)."),
        )
    else:
        report.runs_with.append(say("%(share)s of its maxmemory in use", share=f"{share:.0%}"))


_LOOKS: tuple[Callable[[_Report], None], ...] = (_role, _appendonly, _snapshots, _eviction, _memory)
