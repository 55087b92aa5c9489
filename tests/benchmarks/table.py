"""The table: printed for a person, kept as Markdown and JSON. It shows what was lost as plainly as what was won."""

import json
import os
import platform
import statistics
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.benchmarks.pairs import ROOT, Outcome
from tests.benchmarks.plan import NO_LOSS, Rival

# What a program tells of its store, and how it is shown.
STORES = {"sqlite": "SQLite", "postgres": "Postgres", "redis": "Redis"}
HEAD = (
    "| measured | ours | against | theirs | ratio (least to most) | bar | |",
    "| --- | ---: | --- | ---: | --- | ---: | --- |",
)


def machine() -> dict[str, Any]:
    """What the figures were taken on, and when."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="minutes"),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "commit": _commit(),
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def _commit() -> str:
    try:
        found = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
    except OSError:
        return "unknown"
    return found.stdout.strip() or "unknown"


def lines(
    outcomes: list[Outcome], host: dict[str, Any], runs: list[dict[str, Any]], options: dict[str, Any]
) -> list[str]:
    """The Markdown, line by line."""
    versions = sorted({f"{run['program']} {run.get('version', '')}".strip() for run in runs})
    djangos = sorted({run["django"] for run in runs if "django" in run})
    stores = sorted({f"{told} {run[key]}" for run in runs for key, told in STORES.items() if key in run})
    taken = f"{host['cpu']}, {host['cores']} cores, {host['system']}, Python {host['python']}, {', '.join(stores)}"
    told = [
        (
            f"Measured on {host['date']}: {taken}, Django {', '.join(djangos) or 'none'}, "
            f"this project at {host['commit']}."
        ),
        f"Programs: {'; '.join(versions)}.",
        (
            f"Each ratio is the median of {options['pairs']} alternated pairs, one where a row takes long. Rates are "
            f"jobs a second; a drain of ours has {options['jobs']:,} jobs, a slow peer's fewer. A filled store holds "
            f"{options['finished']:,} finished and {options['delayed']:,} delayed jobs beforehand."
        ),
        "",
        *HEAD,
    ]
    for outcome in outcomes:
        told += _of(outcome)
    failures = [f"- {outcome.row.key}: {text}" for outcome in outcomes for text in outcome.failures]
    return [*told, *(["", "Failed:", "", *failures] if failures else [])]


def _of(outcome: Outcome) -> list[str]:
    row = outcome.row
    own = "failed" if outcome.figure is None else _number(outcome.figure)
    title = f"{row.title}, {row.work.subject.title}" if row.work.subject.peer else row.title
    told = []
    if row.limit is not None or not row.rivals:
        reached = outcome.figure is not None and (row.limit is None or outcome.figure <= row.limit)
        verdict = "" if row.limit is None else ("reached" if reached else "MISSED")
        limit = "" if row.limit is None else f"at most {row.limit:g}"
        told.append(f"| {title} | {own} | | | | {limit} | {verdict} |")
    for rival in row.rivals:
        told.append(f"| {title} | {own} | {_against(outcome, rival)} |")
    return told


def _against(outcome: Outcome, rival: Rival) -> str:
    ratios = outcome.ratios(rival)
    named = rival.work.subject.title + (
        ", nothing else in the store" if outcome.row.work.filled and not rival.work.filled else ""
    )
    bar = "" if rival.bar is None else f"{rival.bar:.3g}"
    if not ratios:
        return f"{named} | failed | | {bar} | {'MISSED' if bar else ''}"
    theirs = statistics.median(figure for _, figure in outcome.pairs[rival])
    ratio = statistics.median(ratios)
    spread = f" ({min(ratios):.2f} to {max(ratios):.2f})" if len(ratios) > 1 else ""
    if rival.bar is not None:
        verdict = "reached" if ratio >= rival.bar else "MISSED"
    else:
        verdict = "lost" if ratio < NO_LOSS and outcome.row.work.subject.peer is None else ""
    return f"{named} | {_number(theirs)} | {ratio:.2f}{spread} | {bar} | {verdict}"


def _number(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}"


def missed(outcomes: list[Outcome]) -> list[str]:
    """The keys of the rows that failed or stayed under a bar."""
    return [
        outcome.row.key for outcome in outcomes if outcome.failures or any("MISSED" in line for line in _of(outcome))
    ]


def keep(
    folder: Path, told: list[str], outcomes: list[Outcome], host: dict[str, Any], runs: list[dict[str, Any]]
) -> None:
    """Writes `benchmark.md` and `benchmark.json` there; the second has every single run."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "benchmark.md").write_text("\n".join(told) + "\n")
    rows = [
        {
            "key": outcome.row.key,
            "title": outcome.row.title,
            "subject": outcome.row.work.subject.title,
            "figure": outcome.row.figure,
            "median": outcome.figure,
            "limit": outcome.row.limit,
            "failures": outcome.failures,
            "rivals": [
                {
                    "subject": rival.work.subject.title,
                    "bar": rival.bar,
                    "pairs": outcome.pairs.get(rival, []),
                    "ratios": outcome.ratios(rival),
                }
                for rival in outcome.row.rivals
            ],
        }
        for outcome in outcomes
    ]
    kept = {"machine": host, "command": sys.argv, "rows": rows, "runs": runs}
    (folder / "benchmark.json").write_text(json.dumps(kept, indent=1) + "\n")
