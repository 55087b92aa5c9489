"""What the views for monitoring have in common, above all who may read them: staff, and who sends a bearer token.

The token is that of the alias, `monitoring_token` in its `OPTIONS`. Without one, only staff may.
"""

from collections.abc import Callable, Iterable

from django.db import Error
from django.http import HttpRequest, HttpResponse
from django.utils.crypto import constant_time_compare


class _Every(set[str]):
    """Django asks each database of ATOMIC_REQUESTS whether it is in here."""

    def __contains__(self, alias: object) -> bool:
        return True


def outside_transactions[V: Callable[..., HttpResponse]](view: V) -> V:
    """Have a view run outside of ATOMIC_REQUESTS: on a database that is out of reach none could even begin."""
    view._non_atomic_requests = _Every()  # type: ignore[attr-defined]
    return view


def refusal(request: HttpRequest, tokens: Iterable[str | None]) -> HttpResponse | None:
    """None where whoever asks may read; else the answer: 401, or 403 for a user who is not staff.

    503 where the sessions are in a database that does not answer, while the token opens the view all the same. A wrong
    token is refused also from staff, so that one who tries a token out learns whether it is right.
    """
    sent = _bearer(request)
    if sent is not None:
        return None if _is_known(sent, tokens) else _unauthorized()
    try:
        return _refusal_of_user(request)
    except Error:
        return HttpResponse(
            "The database of the sessions does not answer. Send the token of this alias.\n",
            status=503,
            content_type="text/plain",
        )


def _refusal_of_user(request: HttpRequest) -> HttpResponse | None:
    user = getattr(request, "user", None)  # there is none without Django's middleware for it
    if user is None or not user.is_authenticated:
        return _unauthorized()
    if user.is_active and user.is_staff:
        return None
    return HttpResponse("For staff.\n", status=403, content_type="text/plain")


def _bearer(request: HttpRequest) -> str | None:
    kind, _, value = request.headers.get("Authorization", "").partition(" ")
    return value.strip() if kind.lower() == "bearer" else None


def _is_known(sent: str, tokens: Iterable[str | None]) -> bool:
    return any(constant_time_compare(sent, token) for token in tokens if token)


def _unauthorized() -> HttpResponse:
    answer = HttpResponse("Send the token of this alias, or sign in as staff.\n", status=401, content_type="text/plain")
    answer.headers["WWW-Authenticate"] = 'Bearer realm="tinyjobs"'
    return answer
