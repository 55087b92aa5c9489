"""The values of the Redis store's options and of a connection's settings, each read as what it means.

Errors name the option. They quote the value, but for what may be a password. Knows no URL.
"""

import re
import ssl
from collections.abc import Callable, Mapping
from typing import Any

from tinyjobs.backends.optionvalues import NO, parse_seconds, parse_switch
from tinyjobs.core.errors import ConfigurationError

_PREFIX = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,39}")


def read_value(name: str, value: Any) -> Any:
    """What a value means under that name. Raises `ConfigurationError`."""
    reader = _READERS.get(name)
    return value if reader is None else reader(name, value)


def is_off(value: object) -> bool:
    """Whether a setting of the client's is switched off: false, none, or a policy that never tries again."""
    retries = value.get_retries() if hasattr(value, "get_retries") else getattr(value, "_retries", None)
    return not value or retries == 0 or (isinstance(value, str) and value.lower() in NO)


def _prefix(name: str, value: object) -> str:
    bare = value[1:-1] if isinstance(value, str) and value[:1] == "{" and value[-1:] == "}" else value
    if not isinstance(bare, str) or not _PREFIX.fullmatch(bare):
        raise ConfigurationError(
            f"{name}: {value!r} cannot stand before keys. Use up to 40 letters, digits and _ . : -, beginning with a "
            f"letter, a digit or an underscore."
        )
    return bare


def _whole(least: int, most: int, wanted: str) -> Callable[[str, object], int]:
    """The reader of a whole number within these bounds; `wanted` is what the error says of another."""

    def read(name: str, value: object) -> int:
        number = int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 10 else value
        if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= most:
            raise ConfigurationError(f"{name}: {value!r} is {wanted}.")
        return number

    return read


def _text(name: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        shown = "it" if name in ("username", "password") else repr(value)
        raise ConfigurationError(f"{name}: {shown} is not text.")
    return value


def _text_or_none(name: str, value: object) -> str | None:
    return value if value is None or value == "" else _text(name, value)


def _client_name(name: str, value: object) -> str | None:
    text = _text_or_none(name, value)
    if text and not re.fullmatch("[!-~]+", text):
        raise ConfigurationError(
            f"{name}: {value!r} is no name of a connection: letters, digits, signs, without blanks."
        )
    return text


def _provider(name: str, value: Any) -> Any:
    if value is not None and not hasattr(value, "get_credentials"):
        raise ConfigurationError(f"{name}: what is given has no get_credentials(), as redis.CredentialProvider has.")
    return value


def _keepalive_options(name: str, value: object) -> Any:
    is_mapping = isinstance(value, Mapping) and all(isinstance(option, int) for option in value)
    if value is not None and not is_mapping:
        raise ConfigurationError(f"{name}: {value!r} is not a mapping of socket's numbers, such as TCP_KEEPIDLE.")
    return value


def _socket_type(name: str, value: object) -> Any:
    if not isinstance(value, int):
        raise ConfigurationError(f"{name}: {value!r} is not one of Python's address families.")
    return value


def _tls_version(name: str, value: object) -> ssl.TLSVersion | None:
    if value is None or isinstance(value, ssl.TLSVersion):
        return value
    spelled = str(value).upper().replace(".", "_")
    for version in ssl.TLSVersion:
        name_of_it = version.name.upper()
        if spelled in (name_of_it, name_of_it.removeprefix("TLSV"), str(version.value)):
            return version
    raise ConfigurationError(f"{name}: {value!r} is no version of TLS, such as TLSv1.2.")


def _verify_flags(name: str, value: object) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return [ssl.VerifyFlags[flag.strip()] for flag in value.strip("[]").split(",")]
    except KeyError:
        raise ConfigurationError(f"{name}: {value!r} are not flags of Python's ssl.VerifyFlags.") from None


def _cert_reqs(name: str, value: object) -> Any:
    if isinstance(value, str) and value not in ("none", "optional", "required"):
        raise ConfigurationError(f"{name}: {value!r} is none of none, optional, required.")
    return value


_READERS: dict[str, Callable[[str, Any], Any]] = {
    "prefix": _prefix,
    "max_connections": _whole(1, 10_000, "not a number of connections from 1 to 10000"),
    "pool_timeout": parse_seconds,
    "socket_timeout": parse_seconds,
    "socket_connect_timeout": parse_seconds,
    "health_check_interval": parse_seconds,
    "notify": parse_switch,
    "db": _whole(0, 99_999, "not the number of a database"),
    "port": _whole(1, 65_535, "no port, which is a number from 1 to 65535"),
    "host": _text,
    "path": _text,
    "username": _text_or_none,
    "password": _text_or_none,
    "client_name": _client_name,
    "credential_provider": _provider,
    "socket_keepalive_options": _keepalive_options,
    "socket_type": _socket_type,
    "socket_read_size": _whole(1, 1 << 30, "not a number of bytes"),
    "socket_keepalive": parse_switch,
    "ssl_check_hostname": parse_switch,
    "ssl_min_version": _tls_version,
    "ssl_include_verify_flags": _verify_flags,
    "ssl_exclude_verify_flags": _verify_flags,
    "ssl_cert_reqs": _cert_reqs,
}
