"""The form for a schedule that is kept as data. What may stand in it is for the schedule's own rules to say.

Arguments are JSON. Those that a mask hides, and those that JSON has no words for, stay as they are kept unless somebody
writes others.
"""

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from tinyjobs.core.errors import SchemaMissingError, StoreUnavailableError, TinyJobsError
from tinyjobs.core.inline import finish
from tinyjobs.core.masking import HIDDEN, restored
from tinyjobs.dashboard.pages.values import parameter_names
from tinyjobs.dashboard.services import Desk
from tinyjobs.dashboard.troubles import told
from tinyjobs.dashboard.words import MISFIRES
from tinyjobs.runtime import schedules

_WIDE = {"size": 60, "class": "vTextField"}
_CODE = {"rows": 3, "cols": 70, "spellcheck": "false", "class": "tj-code"}


class ScheduleForm(forms.Form):
    """The fields of a schedule."""

    name = forms.CharField(label=gettext_lazy("Name"), max_length=255, widget=forms.TextInput(_WIDE))
    task = forms.CharField(
        label=gettext_lazy("Task"), max_length=255, widget=forms.TextInput({**_WIDE, "list": "tj-tasks"})
    )
    cron = forms.CharField(
        label=gettext_lazy("Cron expression"),
        help_text=gettext_lazy("Minute, hour, day of the month, month, weekday, as in 0 3 * * 1; or @daily."),
        max_length=1_000,
        widget=forms.TextInput({**_WIDE, "spellcheck": "false"}),
    )
    timezone = forms.CharField(label=gettext_lazy("Time zone"), max_length=255, required=False)
    args = forms.CharField(
        label=gettext_lazy("Positional arguments"),
        help_text=gettext_lazy("A list in JSON."),
        required=False,
        widget=forms.Textarea(_CODE),
    )
    kwargs = forms.CharField(
        label=gettext_lazy("Named arguments"),
        help_text=gettext_lazy("An object in JSON."),
        required=False,
        widget=forms.Textarea(_CODE),
    )
    queue = forms.CharField(
        label=gettext_lazy("Queue"),
        help_text=gettext_lazy("Empty for that of the task."),
        max_length=255,
        required=False,
        widget=forms.TextInput({"list": "tj-queues"}),
    )
    priority = forms.IntegerField(
        label=gettext_lazy("Priority"), help_text=gettext_lazy("Empty for that of the task."), required=False
    )
    misfire = forms.ChoiceField(label=gettext_lazy("Missed firings"), choices=list(MISFIRES.items()), initial="skip")
    overlap = forms.BooleanField(
        label=gettext_lazy("May start while its last job is active"),
        required=False,
    )

    def __init__(self, *given: Any, desk: Desk, is_new: bool, **named: Any) -> None:
        super().__init__(*given, **named)
        self.label_suffix = ""
        zone = self.fields["timezone"]
        zone.help_text = _("Empty for %(zone)s.") % {"zone": desk.target.timetable.default_zone or "-"}
        if not is_new:
            self.fields["name"].disabled = True

    def clean_args(self) -> Any:
        """A list."""
        return self._json("args", list, [], _("This is not a list in JSON."))

    def clean_kwargs(self) -> Any:
        """A dictionary."""
        return self._json("kwargs", dict, {}, _("This is not an object in JSON."))

    def _json(self, name: str, kind: type, empty: Any, complaint: str) -> Any:
        text = self.cleaned_data[name].strip()
        if not text:
            return empty
        try:
            value = json.loads(text, parse_constant=_number, parse_float=_number)
        except _NotANumberError as error:
            raise forms.ValidationError(_("JSON has no NaN and no infinity, so an argument cannot be one.")) from error
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, kind):
            raise forms.ValidationError(complaint)
        return value


class _NotANumberError(Exception):
    """What Python reads and JSON does not have."""


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise _NotANumberError(text)
    return number


def shown_values(desk: Desk, page: Mapping[str, Any] | None) -> dict[str, Any]:
    """What stands in the fields at first; `page` is that of the schedule, None for a new one."""
    if page is None:
        return {"misfire": "skip", "args": "[]", "kwargs": "{}"}
    names = ("name", "task", "cron", "timezone", "queue", "priority", "misfire", "overlap")
    given = page["arguments"]
    texts = {name: "" if given[name] is None else as_text(given[name]) for name in ("args", "kwargs")}
    return {**{name: page[name] for name in names}, **texts}


def saved(desk: Desk, form: ScheduleForm, page: Mapping[str, Any] | None) -> bool:
    """Keep the schedule; False, and the form says why, if it cannot work."""
    values = dict(form.cleaned_data)
    name = values.pop("name")
    values = {key: None if value == "" else value for key, value in values.items()}
    try:
        if page is not None:
            values |= _kept_arguments(desk, form, page, values)
        desk.target.catalogue.find(name)
        if page is None and any(state.name == name for state in finish(desk.store.schedules())):
            form.add_error("name", _("There is a schedule of that name already."))
            return False
        finish(schedules.save(desk.store, desk.target.timetable, name, values, _("The schedule")))
    except (StoreUnavailableError, SchemaMissingError):
        raise
    except forms.ValidationError as error:
        form.add_error(None, error)
        return False
    except (TinyJobsError, TypeError) as error:
        form.add_error(None, told(error, _("It cannot be kept like this.")).html)
        return False
    return True


def _kept_arguments(
    desk: Desk, form: ScheduleForm, page: Mapping[str, Any], values: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments with what the form did not show of them. Those that nobody touched stay whatever they are."""
    state = finish(schedules.find(desk.store, desk.target.timetable, page["name"]))
    if state.payload is None:
        return {}
    args, kwargs = desk.target.codecs.get(state.codec).decode_call(state.payload)
    kept: dict[str, Any] = {"args": list(args), "kwargs": dict(kwargs)}
    found: dict[str, Any] = {}
    for name, old in kept.items():
        # Compared as they are written, since True == 1.
        is_same = as_text(values[name]) == as_text(page["arguments"][name])
        found[name] = old if is_same else restored(values[name], old, desk.mask)
        for number in _numbers_that_became_text(found[name], old):
            text = _(
                "%(number)s is not text but a number that JSON does not have. It can stay in its place or be taken out."
            )
            raise forms.ValidationError({name: text % {"number": number}})
    names = parameter_names(desk, values["task"], len(found["args"]))
    shown = desk.veil().call(found["args"], found["kwargs"], names)
    for (name, old), seen in zip(kept.items(), shown, strict=True):
        if _is_hidden_no_more(values[name], found[name], old, seen):
            text = _("%(hidden)s stands for a value that is hidden. It can stay in its place or be written anew.")
            raise forms.ValidationError({name: text % {"hidden": HIDDEN}})
    return found


def _is_hidden_no_more(given: Any, made: Any, old: Any, seen: Any) -> bool:
    """Whether the sign for a hidden value was moved.

    Then it would be kept itself as a value, or another value is taken for it, or the hidden one would be `seen`, as by
    the parameters of another task.
    """
    before = [*_leaves(old)]
    signs = [part for part in _leaves(made) if isinstance(part, str) and HIDDEN in part]
    return any(signs.count(sign) > before.count(sign) for sign in signs) or _shows(given, seen)


def _shows(given: Any, seen: Any) -> bool:
    """Whether anything is seen where somebody left the sign for what is hidden."""
    if given == HIDDEN:
        return bool(seen != HIDDEN)
    if isinstance(given, Mapping) and isinstance(seen, Mapping):
        return any(_shows(part, seen.get(key)) for key, part in given.items())
    if isinstance(given, list) and isinstance(seen, list):
        return any(map(_shows, given, seen))
    return False


def _numbers_that_became_text(new: Any, old: Any) -> Iterator[str]:
    """NaN and infinity are shown as text. One that was moved is kept in no place, so only the text would be left."""
    before, after = [*_leaves(old)], [*_leaves(new)]
    numbers = {repr(part) for part in before if isinstance(part, float) and not math.isfinite(part)}
    for text in sorted(numbers):
        if after.count(text) > before.count(text):
            yield text


def _leaves(value: Any) -> Iterator[Any]:
    parts = value.values() if isinstance(value, Mapping) else value
    if not isinstance(value, Mapping | list | tuple):
        yield value
        return
    for part in parts:
        yield from _leaves(part)


def as_text(value: object) -> str:
    """A value as indented JSON, without what no page can be encoded with."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
