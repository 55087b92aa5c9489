"""Filters and tags of the dashboard's templates: instants, lengths of time, values as text, charts, addresses.

Everything that is not markup made here is escaped, so a text out of a store is never more than a text.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from django import template
from django.template import Context
from django.utils import timezone
from django.utils.formats import number_format
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from tinyjobs.core.cron import NEVER
from tinyjobs.core.sentences import Sentence
from tinyjobs.dashboard import charts, phrases, words
from tinyjobs.dashboard.troubles import quoted_words

register = template.Library()

#: The most characters of arguments or of a result that are shown unless somebody asks for everything.
LONGEST = 10_000

_THROUGHPUT = (
    charts.Series(name="succeeded", label=gettext_lazy("succeeded"), css="tj-success"),
    charts.Series(name="unsuccessful", label=gettext_lazy("unsuccessful"), css="tj-failed"),
)
_FAILURES = (
    charts.Series(name="unsuccessful", label=gettext_lazy("unsuccessful"), css="tj-failed"),
    charts.Series(name="cancelled", label=gettext_lazy("cancelled"), css="tj-cancelled"),
)
_WAITS = (
    charts.Series(name="mean_wait", label=gettext_lazy("mean"), css="tj-mean"),
    charts.Series(name="longest_wait", label=gettext_lazy("longest"), css="tj-longest"),
)
_RUNS = (
    charts.Series(name="mean_run", label=gettext_lazy("mean"), css="tj-mean"),
    charts.Series(name="longest_run", label=gettext_lazy("longest"), css="tj-longest"),
)


@register.filter
def moment(instant: float | None) -> str:
    """An instant in the active time zone; UTC where the pointer rests, and for programs."""
    found = None if instant is None or instant >= NEVER else _by_calendar(instant)
    if found is None:
        return "–"
    utc, local = found
    return format_html(
        '<time datetime="{}" title="{} UTC">{}</time>',
        f"{utc:%Y-%m-%dT%H:%M:%SZ}",
        f"{utc:%Y-%m-%d %H:%M:%S}",
        f"{local:%Y-%m-%d %H:%M:%S}",
    )


@register.filter
def ago(instant: float | None, now: float) -> str:
    """How long ago that was, or how far off it is, with the instant itself where the pointer rests."""
    if instant is None or instant >= NEVER:
        return "–"
    difference = now - instant
    text = _("%(time)s ago") if difference >= 0 else _("in %(time)s")
    told = text % {"time": length(abs(difference))}
    found = _by_calendar(instant)
    if found is None:
        return told
    utc, local = found
    return format_html(
        '<time datetime="{}" title="{} ({} UTC)">{}</time>',
        f"{utc:%Y-%m-%dT%H:%M:%SZ}",
        f"{local:%Y-%m-%d %H:%M:%S}",
        f"{utc:%Y-%m-%d %H:%M:%S}",
        told,
    )


def _by_calendar(instant: float) -> tuple[datetime, datetime] | None:
    """An instant in UTC and in the active time zone; None where no calendar has it."""
    try:
        utc = datetime.fromtimestamp(instant, UTC)
    except (OverflowError, ValueError, OSError, TypeError):
        return None
    try:
        return utc, utc.astimezone(timezone.get_current_timezone())
    except (OverflowError, ValueError):
        return utc, utc  # the last hours of the year 9999, which stand for never, are those of no year further east


@register.filter(name="seconds")
def length(seconds: float | None) -> str:
    """A length of time, as rough as people need it."""
    if seconds is None:
        return "–"
    if seconds < 1:
        thousandths = seconds * 1000
        return _("%(number)s ms") % {"number": number_format(thousandths, 0 if thousandths >= 10 else 1)}
    for size, text in ((86_400, _("%(number)s d")), (3_600, _("%(number)s h")), (60, _("%(number)s min"))):
        if seconds >= 2 * size:
            return text % {"number": number_format(round(seconds / size))}
    return _("%(number)s s") % {"number": number_format(seconds, 0 if seconds >= 10 else 1)}


@register.filter
def rate(number: float) -> str:
    """How many a minute."""
    return number_format(number, 0 if number >= 10 else 1)


@register.filter
def status_word(status: object) -> words.Text:
    """The word for a status."""
    return words.status_word(status)


@register.filter
def misfire_word(rule: object) -> words.Text:
    """The words for what becomes of missed firings."""
    return words.MISFIRES.get(str(rule), str(rule))


@register.filter
def translated(text: str | None) -> str | None:
    """A sentence from below the pages in the language of whoever looks."""
    return None if text is None else phrases.translated(text)


@register.filter
def unread(why: str) -> str:
    """Why a value was not read: a sentence of ours, or what whoever tried to read it said."""
    if isinstance(why, Sentence) and phrases.is_known(why):
        return phrases.translated(why)
    return quoted_words(_("It cannot be read."), why)


@register.filter
def value_text(value: object) -> str:
    """A value as indented JSON, without what no page can be encoded with."""
    text = json.dumps(value, indent=2, ensure_ascii=False, default=str)
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


@register.inclusion_tag("admin/tinyjobs/parts/value.html", takes_context=True)
def show_value(context: Context, value: object, is_whole: bool) -> dict[str, Any]:
    """A value in a block, cut if it is long."""
    text = value_text(value)
    is_cut = not is_whole and len(text) > LONGEST
    return {
        "text": text[:LONGEST] if is_cut else text,
        "is_cut": is_cut,
        "length": len(text),
        "shown": LONGEST,
        "whole_url": whole_url(context),
    }


@register.simple_tag(takes_context=True)
def whole_url(context: Context) -> str:
    """The address of this page with nothing cut."""
    query = context["request"].GET.copy()
    query["all"] = "1"
    return f"?{query.urlencode()}"


@register.simple_tag
def figures(spans: Sequence[Mapping[str, Any]], reach: str) -> list[charts.Chart]:
    """The four charts of an hour or a day."""
    return [
        charts.stacked(f"{reach}-throughput", _("Attempts"), spans, _THROUGHPUT),
        charts.stacked(f"{reach}-failures", _("Failures"), spans, _FAILURES),
        charts.lines(f"{reach}-wait", _("Wait time"), spans, _WAITS),
        charts.lines(f"{reach}-run", _("Run time"), spans, _RUNS),
    ]


@register.filter
def in_unit(number: float | None, unit: str) -> str:
    """A number of a chart."""
    if number is None:
        return "–"
    return length(number) if unit == "s" else number_format(number)


@register.filter
def sparkline(runs: Sequence[Mapping[str, Any]]) -> Sequence[charts.Bar]:
    """The bars of the latest runs."""
    return charts.sparkline(runs)


@register.filter
def ended_as(runs: Sequence[Mapping[str, Any]], status: str) -> int:
    """How many runs have that status."""
    return sum(1 for run in runs if run["status"] == status)


@register.simple_tag(takes_context=True)
def page_url(context: Context, name: str, *about: str, **query: Any) -> str:
    """The address of a view of the dashboard on this site and about this alias."""
    dashboard = context["dashboard"]
    found: str = dashboard.url(name, *about, query={**query, **dashboard.alias_query(context["backend"])})
    return found


@register.simple_tag(takes_context=True)
def nonce(context: Context) -> str:
    """The attribute that a strict content policy asks for, where the project makes nonces."""
    request = context.get("request")
    found = getattr(request, "_csp_nonce", None)
    return "" if found is None else format_html('nonce="{}"', found)
