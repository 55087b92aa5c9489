"""Whether all is well, for probes: 200 or 503, within a few seconds, whatever the store does.

Anybody may ask for the verdict. What was found is shown to staff and to who sends the token, as on the metrics view.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.tasks.exceptions import InvalidTaskBackend
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from tinyjobs.core.errors import TinyJobsError
from tinyjobs.core.watching import Finding
from tinyjobs.operations.check import as_json, is_healthy
from tinyjobs.taskbackend.backend import backend_of, our_backends
from tinyjobs.taskbackend.checking import begin_health
from tinyjobs.taskbackend.shared import Shared
from tinyjobs.views.access import outside_transactions, refusal

_YES, _NO = ("", "1", "true", "yes", "on"), ("0", "false", "no", "off")


@outside_transactions
@never_cache
@require_safe
def health(request: HttpRequest) -> HttpResponse:
    """The verdict on `?backend=ALIAS`, else on every alias that uses tinyjobs.

    `max_wait=SECONDS` limits for how long a due job may wait; `store_warnings` only warns of the store's own settings.
    """
    asked = request.GET.get("backend")
    aliases = list(our_backends()) if asked is None else [asked] if asked in our_backends() else []
    if not aliases:
        return _answer(404, {"error": "No alias of TASKS with this name uses tinyjobs."})
    try:
        max_wait = _seconds(request.GET.get("max_wait"))
        store_warnings = _switch(request.GET.get("store_warnings", "0"))
    except ValueError as error:
        return _answer(400, {"error": str(error)})
    shared: dict[str, Shared] = {}

    def begin(alias: str) -> list[Finding]:
        shared[alias] = backend_of(alias).shared
        begun[alias] = begin_health(shared[alias], max_wait=max_wait, store_warnings=store_warnings)
        return []

    # All have begun before the first is waited for.
    begun: dict[str, Callable[[], list[Finding]]] = {}
    found = {alias: _or_why_not(partial(begin, alias)) for alias in aliases}
    found |= {alias: _or_why_not(findings) for alias, findings in begun.items()}
    healthy = all(map(is_healthy, found.values()))
    told: dict[str, Any] = {"status": "ok" if healthy else "failing"}
    if refusal(request, [one.settings.monitoring_token for one in shared.values()]) is None:
        told["backends"] = {alias: [as_json(finding) for finding in findings] for alias, findings in found.items()}
    return _answer(200 if healthy else 503, told)


def _or_why_not(look: Callable[[], list[Finding]]) -> list[Finding]:
    """The findings; one alone where the settings keep anything from being looked at."""
    try:
        return look()
    except (TinyJobsError, InvalidTaskBackend) as error:
        return [Finding(name="settings", ok=False, message=str(error), remedy="Run `manage.py check`.")]


def _answer(status: int, told: dict[str, Any]) -> HttpResponse:
    return JsonResponse(told, status=status, json_dumps_params={"indent": 2})


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not seconds >= 0:
        raise ValueError("max_wait: a number of seconds from 0 on.")
    return seconds


def _switch(text: str) -> bool:
    if text.lower() not in _YES + _NO:
        raise ValueError("store_warnings: 1 or 0.")
    return text.lower() in _YES
