"""The store's figures for Prometheus, from the web process: there also while no worker runs.

What this process counted is in them as well, which is something only where it runs jobs itself. A store that does not
answer in time costs its own figures alone.
"""

from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from tinyjobs.core.errors import TinyJobsError
from tinyjobs.core.inline import finish
from tinyjobs.core.job import Stats
from tinyjobs.operations.metrics import CONTENT_TYPE
from tinyjobs.taskbackend.backend import backend_of, our_backends
from tinyjobs.taskbackend.checking import within_budget
from tinyjobs.taskbackend.shared import Shared
from tinyjobs.views.access import outside_transactions, refusal


@outside_transactions
@never_cache
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """The metrics of one alias: the only one that uses tinyjobs, or `?backend=ALIAS`."""
    shared = _shared(request.GET.get("backend"))
    refused = refusal(request, [] if shared is None else [shared.settings.monitoring_token])
    if refused is not None:
        return refused
    if shared is None:
        ours = ", ".join(our_backends())
        return HttpResponse(f"Say which with ?backend=: {ours}.\n", status=404, content_type="text/plain")
    return HttpResponse(shared.metrics.render(_stats(shared), asked=True), content_type=CONTENT_TYPE)


def _shared(alias: str | None) -> Shared | None:
    ours = our_backends()
    if alias is None:
        alias = "default" if "default" in ours else next(iter(ours), None) if len(ours) == 1 else None
    if alias is None or alias not in ours:
        return None
    return backend_of(alias).shared


def _stats(shared: Shared) -> Stats | None:
    try:
        return within_budget(shared, "stats", lambda: finish(shared.engine_store.stats()))
    except (TinyJobsError, DatabaseError, TimeoutError):
        return None
