"""A proxy that ends TLS before a web server, as one in front of a deployment does: small, and for one test at a time.

It takes one request a connection, tells the server who asked for what in the headers that are usual for it, and gives
the answer on as it comes. What a client says in those headers is dropped, or anybody could say anything.
"""

import asyncio
import ssl
import subprocess
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from tests.servers.processes import PATIENCE, MissingProgramError

_LONGEST_HEAD = 64 * 1024
# Of one connection alone, or for the proxy to say.
_NOT_PASSED_ON = ("connection", "keep-alive", "proxy-connection", "forwarded", "x-forwarded-")


@dataclass(frozen=True)
class Certificate:
    """Two files. The first is also the authority that a client has to trust."""

    path: Path
    key: Path

    def for_server(self) -> ssl.SSLContext:
        """What a server listens with."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.path, self.key)
        return context

    def for_client(self) -> ssl.SSLContext:
        """What a client connects with that trusts this one and nobody else."""
        return ssl.create_default_context(cafile=str(self.path))


def certify(folder: Path, *names: str) -> Certificate:
    """Make a certificate for these names. Raises `MissingProgramError`."""
    made = Certificate(folder / "certificate.pem", folder / "key.pem")
    kind = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    others = ",".join(f"DNS:{name}" for name in names)
    named = ["-subj", f"/CN={names[0]}", "-addext", f"subjectAltName={others}"]
    try:
        subprocess.run(
            ["openssl", "req", *kind, *named, "-out", str(made.path), "-keyout", str(made.key)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            timeout=PATIENCE,
        )
    except FileNotFoundError:
        raise MissingProgramError("no openssl here; on Debian and Ubuntu: apt-get install openssl") from None
    return made


class TlsProxy:
    """Stands before the web server of a URL, on `https://127.0.0.1:<port>`.

    With a `prefix` it serves what is below that. `strips`: the server gets the rest of the address alone.
    `keeps_host`: it gets the host that the client named, else its own, as many a proxy does unless told otherwise; the
    client's stands in X-Forwarded-Host in either case.
    """

    def __init__(
        self, url: str, certificate: Certificate, *, prefix: str = "", strips: bool = True, keeps_host: bool = True
    ) -> None:
        self._server = urlsplit(url).netloc
        self._prefix = prefix.rstrip("/")
        self._strips = strips
        self._keeps_host = keeps_host
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tls-proxy", daemon=True)
        self._thread.start()
        listening = asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=certificate.for_server())
        self._listener = asyncio.run_coroutine_threadsafe(listening, self._loop).result(PATIENCE)
        self.port: int = self._listener.sockets[0].getsockname()[1]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(PATIENCE)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()

    # --- on the loop ---

    async def _close(self) -> None:
        self._listener.close()
        under_way = asyncio.all_tasks() - {asyncio.current_task()}
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._pass_on(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass  # a browser opens connections for later, and leaves when it likes
        finally:
            writer.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        start, headers = await _head(reader)
        method, target, version = start.split(" ")
        if not target.startswith(f"{self._prefix}/"):
            writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            await writer.drain()
            return
        if self._strips:
            target = target.removeprefix(self._prefix)
        asked = next((value for name, value in headers if name.lower() == "host"), "")
        length = next((int(value) for name, value in headers if name.lower() == "content-length"), 0)
        body = await reader.readexactly(length)
        kept = [(name, value) for name, value in _passed_on(headers) if name.lower() != "host"]
        told = [
            ("Host", asked if self._keeps_host else self._server),
            ("X-Forwarded-Proto", "https"),
            ("X-Forwarded-Host", asked),
            ("X-Forwarded-For", writer.get_extra_info("peername")[0]),
        ]
        host, _, port = self._server.rpartition(":")
        answer, sender = await asyncio.open_connection(host, int(port))
        try:
            sender.write(_written(f"{method} {target} {version}", [*told, *kept]) + body)
            start, headers = await _head(answer)
            writer.write(_written(start, _passed_on(headers)))
            while part := await answer.read(_LONGEST_HEAD):
                writer.write(part)
                await writer.drain()
        finally:
            sender.close()


async def _head(reader: asyncio.StreamReader) -> tuple[str, list[tuple[str, str]]]:
    """The first line, and the headers in their order."""
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    parted = (line.partition(":") for line in lines if line)
    return first, [(name, value.strip()) for name, _, value in parted]


def _passed_on(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(name, value) for name, value in headers if not name.lower().startswith(_NOT_PASSED_ON)]


def _written(start: str, headers: Iterable[tuple[str, str]]) -> bytes:
    lines = [start, *(f"{name}: {value}" for name, value in headers), "Connection: close", "", ""]
    return "\r\n".join(lines).encode("latin-1")
