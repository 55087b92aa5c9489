"""Charts as plain geometry, which templates turn into SVG: no script, no style attribute, nothing to load.

A chart is made of spans of time with a number or more for each. Its caption has the sums or the largest, and a table
beside the charts has every figure, for whoever cannot see them; both are the template's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tinyjobs.dashboard.words import Text

WIDTH, HEIGHT = 600.0, 120.0
_BOTTOM = 100.0
_TOP = 6.0


@dataclass(frozen=True, kw_only=True)
class Series:
    """One kind of number: where it stands in a span, what it is called, and the class it is drawn with."""

    name: str
    label: Text
    css: str


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A rectangle, in units of the drawing."""

    x: float
    y: float
    width: float
    height: float
    css: str


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line through points, as SVG writes them. A gap begins a new one."""

    points: str
    css: str


@dataclass(frozen=True, kw_only=True)
class Chart:
    """What a template draws. `totals` are the sum of each series, or its largest value where it is a time."""

    key: str
    title: Text
    series: Sequence[Series]
    unit: str
    start: float
    end: float
    largest: float
    bars: Sequence[Bar] = ()
    lines: Sequence[Line] = ()
    totals: Sequence[tuple[Text, float]] = ()

    width = WIDTH
    height = HEIGHT
    bottom = _BOTTOM

    @property
    def is_empty(self) -> bool:
        """Whether nothing happened."""
        return not (self.bars or self.lines)


def stacked(key: str, title: Text, spans: Sequence[Mapping[str, Any]], series: Sequence[Series]) -> Chart:
    """Bars on top of each other, one pile for each span: how many of each kind there were."""
    largest = max((sum(span[kind.name] for kind in series) for span in spans), default=0)
    step = WIDTH / max(len(spans), 1)
    bars: list[Bar] = []
    for place, span in enumerate(spans):
        top = _BOTTOM
        for kind in series:
            height = span[kind.name] / largest * (_BOTTOM - _TOP) if largest else 0.0
            if height:
                top -= height
                bars.append(
                    Bar(
                        x=round(place * step, 2),
                        y=round(top, 2),
                        width=round(step * 0.8, 2),
                        height=round(height, 2),
                        css=kind.css,
                    )
                )
    totals = [(kind.label, sum(span[kind.name] for span in spans)) for kind in series]
    return _chart(key, title, spans, series, "", largest, bars=bars, totals=totals)


def lines(key: str, title: Text, spans: Sequence[Mapping[str, Any]], series: Sequence[Series]) -> Chart:
    """A line for each kind of number, in seconds, broken where nothing happened."""
    values = [span[kind.name] for span in spans for kind in series if span[kind.name] is not None]
    largest = max(values, default=0.0)
    step = WIDTH / max(len(spans), 1)

    def height(value: float) -> float:
        return round(_BOTTOM - (value / largest * (_BOTTOM - _TOP) if largest else 0.0), 2)

    drawn: list[Line] = []
    for kind in series:
        for run in _runs([span[kind.name] for span in spans]):
            points = [f"{round((place + 0.4) * step, 2)},{height(value)}" for place, value in run]
            if len(points) == 1:  # a lone point would not be seen
                x, _, y = points[0].partition(",")
                points = [f"{round(float(x) - step * 0.4, 2)},{y}", f"{round(float(x) + step * 0.4, 2)},{y}"]
            drawn.append(Line(points=" ".join(points), css=kind.css))
    totals = [(kind.label, max((span[kind.name] or 0.0 for span in spans), default=0.0)) for kind in series]
    return _chart(key, title, spans, series, "s", largest, drawn=drawn, totals=totals)


def sparkline(runs: Sequence[Mapping[str, Any]]) -> Sequence[Bar]:
    """The latest runs of a schedule, oldest first: as high as they took long, and of the class of their status."""
    longest = max((run["seconds"] or 0.0 for run in runs), default=0.0)

    def height(run: Mapping[str, Any]) -> float:
        share = (run["seconds"] or 0.0) / longest if longest else 1.0
        return round(4.0 + 14.0 * share, 2)

    return [
        Bar(x=place * 6.0, y=20.0 - height(run), width=5.0, height=height(run), css=f"tj-{run['status']}")
        for place, run in enumerate(runs)
    ]


def _chart(
    key: str,
    title: Text,
    spans: Sequence[Mapping[str, Any]],
    series: Sequence[Series],
    unit: str,
    largest: float,
    *,
    bars: Sequence[Bar] = (),
    drawn: Sequence[Line] = (),
    totals: Sequence[tuple[Text, float]],
) -> Chart:
    return Chart(
        key=key,
        title=title,
        series=series,
        unit=unit,
        start=spans[0]["start"] if spans else 0.0,
        end=spans[-1]["start"] + spans[-1]["seconds"] if spans else 0.0,
        largest=largest,
        bars=bars,
        lines=drawn,
        totals=totals,
    )


def _runs(values: Sequence[float | None]) -> list[list[tuple[int, float]]]:
    """The stretches without a gap, each value with its place."""
    runs: list[list[tuple[int, float]]] = [[]]
    for place, value in enumerate(values):
        if value is None:
            if runs[-1]:
                runs.append([])
        else:
            runs[-1].append((place, value))
    return [run for run in runs if run]
