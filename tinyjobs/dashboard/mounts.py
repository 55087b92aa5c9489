"""The dashboard as a WSGI and as an ASGI application, at any prefix; what is in the address before it is kept.

Requests become Django's by Django's own handlers, without the middleware of the settings: `alone` says what is around
a view here.
"""

from collections.abc import Callable, Sequence

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIHandler
from django.core.handlers.wsgi import WSGIHandler
from django.http import HttpRequest, HttpResponseBase

from tinyjobs.dashboard.alone import Alone
from tinyjobs.dashboard.services import Desks

type _Respond = Callable[[HttpRequest], HttpResponseBase]


class Wsgi(WSGIHandler):
    """The dashboard for a WSGI server."""

    def __init__(self, desks: Desks, hosts: Sequence[str] = ()) -> None:
        self._respond = Alone(desks, hosts).respond
        super().__init__()

    def load_middleware(self, is_async: bool = False) -> None:
        """None but what every page here has around it."""
        self._middleware_chain = self._respond


class Asgi(ASGIHandler):
    """The same for an ASGI server. Pages are made in threads, so that a slow store holds up no other request."""

    def __init__(self, desks: Desks, hosts: Sequence[str] = ()) -> None:
        self._respond = Alone(desks, hosts).respond
        super().__init__()

    def load_middleware(self, is_async: bool = False) -> None:
        """None but what every page here has around it."""
        self._middleware_chain = sync_to_async(self._respond, thread_sensitive=False)
