"""How a Postgres server and our session on it are set up, held against what the guarantees need. One query.

Knows no driver. A setting that the server does not tell is reported as not checked, since the guarantee may hold.
"""

from tinyjobs.backends.auditing import AuditReport
from tinyjobs.backends.sql.connection import Connection
from tinyjobs.backends.sql.statements import Statements
from tinyjobs.core.sentences import Sentence, join, say
from tinyjobs.core.watching import Finding


async def audit(connection: Connection, statements: Statements) -> list[Finding]:
    """The problems, then what the server runs with."""
    ((commit, usual_commit, fsync, neon, in_recovery, read_only),) = await connection.fetch(statements["audit"])
    report = AuditReport()
    _commits(report, commit, usual_commit)
    _fsync(report, fsync, is_neon=bool(neon))
    _writes(report, in_recovery, read_only)
    told: list[Sentence] = []
    if report.runs_with:
        told.append(say("Postgres runs with %(settings)s.", settings=join(report.runs_with)))
    if report.unknown:
        told.append(say("Not checked, as the server does not tell: %(settings)s.", settings=join(report.unknown)))
    message = join(told, " ")
    return report.ended(message)


def _commits(report: AuditReport, commit: str | None, usual: str | None) -> None:
    if commit is None:
        report.unknown.append("synchronous_commit")
        return
    told = f"synchronous_commit {commit}"
    if usual == "off" != commit:
        beside = say("here, off by default: what your own connections commit may be lost in a crash, jobs included")
        told = join([told, beside], " ")
    report.runs_with.append(told)
    if commit == "off":
        report.fail(
            "synchronous_commit",
            say(
                "synchronous_commit is off: a crash of the server loses the last commits, and jobs that were "
                "acknowledged."
            ),
            say("Set synchronous_commit to on, for the server, the database or the role."),
        )


def _fsync(report: AuditReport, fsync: str | None, *, is_neon: bool) -> None:
    if fsync is None:
        report.unknown.append("fsync")
    elif fsync == "off" and is_neon:
        report.runs_with.append(say("fsync off, as everywhere on Neon, whose storage keeps what is committed"))
    else:
        report.runs_with.append(f"fsync {fsync}")
        if fsync == "off":
            report.fail(
                "fsync",
                say("fsync is off: a crash of the machine may lose or spoil what was committed."),
                say("Set fsync = on in postgresql.conf and reload the server."),
            )


def _writes(report: AuditReport, in_recovery: bool | None, read_only: str | None) -> None:
    if in_recovery is None:
        report.unknown.append(say("whether it is a standby"))
    else:
        report.runs_with.append(say("the role of a standby") if in_recovery else say("the role of a primary"))
        if in_recovery:
            report.fail(
                "recovery",
                say("The server is a standby or still recovering, and refuses every write."),
                say("Connect to the primary; with several hosts in the URL, add target_session_attrs=read-write."),
            )
    if read_only is None:
        report.unknown.append("default_transaction_read_only")
    elif read_only == "on":
        report.fail(
            "read_only",
            say("default_transaction_read_only is on, so every write is refused."),
            say("Set it to off for the server, the database or the role. Some hosts turn it on when the disk is full."),
        )
