"""URLs and options of the Redis store: what they mean, what is refused, and that no password is ever shown."""

import re
import ssl
from urllib.parse import quote, unquote

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tinyjobs.backends.redis.options import RedisOptions, parse_url, takes
from tinyjobs.core.errors import ConfigurationError

SECRET = "s3cr3t"


class Provider(redis.CredentialProvider):
    def get_credentials(self):
        return "me", SECRET


def settings(url, **options):
    return dict(parse_url(url, options)[0].keywords)


@pytest.mark.parametrize(
    ("url", "kind", "expected"),
    [
        ("redis://host", "tcp", {"host": "host"}),
        ("redis://", "tcp", {}),
        ("REDIS://host:1/2", "tcp", {"host": "host", "port": 1, "db": 2}),
        ("valkey://host/", "tcp", {"host": "host"}),
        ("redis://[::1]:7/0", "tcp", {"host": "::1", "port": 7, "db": 0}),
        ("redis://host/?db=3", "tcp", {"host": "host", "db": 3}),
        ("redis://me:p%40w@host/4", "tcp", {"username": "me", "password": "p@w", "host": "host", "db": 4}),
        ("redis://:pw@host", "tcp", {"password": "pw", "host": "host"}),
        ("redis://me@host", "tcp", {"username": "me", "host": "host"}),
        ("redis://host?username=me&password=p%26w", "tcp", {"username": "me", "password": "p&w", "host": "host"}),
        ("redis://host?password=%2525", "tcp", {"password": "%25", "host": "host"}),
        ("redis://host?client_name=me", "tcp", {"host": "host", "client_name": "me"}),
        ("redis://host?socket_keepalive=no", "tcp", {"host": "host", "socket_keepalive": False}),
        ("rediss://host?ssl_cert_reqs=none", "tls", {"host": "host", "ssl_cert_reqs": "none"}),
        ("valkeys://host?ssl_check_hostname=false", "tls", {"host": "host", "ssl_check_hostname": False}),
        ("unix:///run/redis.sock", "unix", {"path": "/run/redis.sock"}),
        ("unix:///run/a%20b.sock?db=2", "unix", {"path": "/run/a b.sock", "db": 2}),
        ("unix:///run/a@b.sock", "unix", {"path": "/run/a@b.sock"}),
        ("unix://:pw@/run/a%40b.sock", "unix", {"password": "pw", "path": "/run/a@b.sock"}),
    ],
)
def test_what_a_url_means(url, kind, expected):
    address, options = parse_url(url, {})
    assert address.kind == kind
    assert dict(address.keywords) == expected
    assert options == RedisOptions()


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("ssl_min_version", "TLSv1.2", ssl.TLSVersion.TLSv1_2),
        ("ssl_min_version", "1.3", ssl.TLSVersion.TLSv1_3),
        ("ssl_min_version", "771", ssl.TLSVersion.TLSv1_2),
        ("ssl_min_version", ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2),
        ("ssl_include_verify_flags", "VERIFY_X509_STRICT", [ssl.VERIFY_X509_STRICT]),
    ],
)
def test_what_tls_needs_is_read_as_what_it_spells(name, text, value):
    if name not in takes("tls"):
        pytest.skip("this release of the driver does not take it")
    assert settings("rediss://host", **{name: text})[name] == value
    if isinstance(text, str):
        assert settings(f"rediss://host?{name}={text}")[name] == value


def test_options_may_stand_in_the_url_or_beside_it():
    query = "prefix=mail&max_connections=4&timeout=1.5&socket_timeout=2&socket_connect_timeout=3&notify=off"
    beside = {"prefix": "mail", "max_connections": 4, "pool_timeout": 1.5, "socket_timeout": 2, "notify": False}
    beside |= {"socket_connect_timeout": 3.0, "health_check_interval": 9}
    address, first = parse_url(f"redis://host/0?{query}&health_check_interval=9&db=7&port=9", {})
    second = parse_url("redis://host?prefix=other&notify=on", beside)[1]
    assert first == second
    assert (first.prefix, first.tag, first.max_connections, first.notify) == ("mail", "{mail}", 4, False)
    assert (first.pool_timeout, first.socket_timeout, first.socket_connect_timeout) == (1.5, 2.0, 3.0)
    assert dict(address.keywords) == {"host": "host", "db": 7, "port": 9}
    assert settings("redis://host/0?db=1", db=2, host="elsewhere") == {"host": "elsewhere", "db": 2}


def test_the_prefix_may_be_given_as_the_hash_tag_that_it_becomes():
    assert parse_url("redis://host", {"prefix": "{mine}"})[1].tag == "{mine}"
    assert parse_url("redis://host?prefix=%7Bmine%7D", {})[1].tag == "{mine}"


def test_what_is_without_consequence_is_taken():
    off = {"retry": None, "retry_on_error": [], "retry_on_timeout": False, "decode_responses": False}
    assert settings("redis://host?protocol=3&legacy_responses=true&retry_on_timeout=no", **off) == {"host": "host"}
    assert settings("redis://host", retry=Retry(NoBackoff(), 0)) == {"host": "host"}


@pytest.mark.parametrize(
    ("url", "options", "said"),
    [
        ("redis://host?max_conections=3", {}, r"does not take 'max_conections'\. It takes the store's options .*host"),
        ("redis://me:s3cr3t@host", {"colour": "red"}, "does not take 'colour'"),
        ("redis://host?decode_responses=true", {}, "'decode_responses'. The store reads its answers as bytes"),
        ("redis://host", {"decode_responses": True}, "'decode_responses'"),
        ("redis://host", {"retry": Retry(NoBackoff(), 3)}, "'retry'. A script that is sent again runs twice"),
        ("redis://host?retry_on_timeout=true", {}, "'retry_on_timeout'. A script"),
        ("redis://host", {"retry_on_error": [ConnectionError]}, "'retry_on_error'. A script"),
        ("redis://host?encoding=latin-1", {}, "does not take 'encoding'"),
        ("redis://host", {"parser_class": object}, "does not take 'parser_class'"),
        ("redis://host?ssl_cert_reqs=none", {}, "does not take 'ssl_cert_reqs'"),
        ("redis://host?ssl=true", {}, "does not take 'ssl'"),
        ("unix:///run/r.sock?host=x", {}, "does not take 'host'"),
        ("redis://host?prefix=a&prefix=b", {}, "gives 'prefix' twice"),
        ("redis://host?timeout=1&pool_timeout=2", {}, "gives 'pool_timeout' twice"),
        ("redis://host?timeout=soon", {}, "pool_timeout: 'soon' is not a number of seconds"),
        ("redis://host", {"timeout": "soon"}, "is not a number of seconds"),
        ("redis://host?socket_timeout=0", {}, "socket_timeout: '0' is not a number of seconds"),
        ("redis://host", {"socket_timeout": None}, "socket_timeout: None is not"),
        ("redis://host?socket_connect_timeout=nan", {}, "is not a number of seconds"),
        ("redis://host", {"pool_timeout": 10**400}, "is not a number of seconds"),
        ("redis://host?max_connections=0", {}, "max_connections: '0' is not a number of connections"),
        ("redis://host", {"max_connections": True}, "max_connections: True is not"),
        ("redis://host?max_connections=" + "9" * 5000, {}, "is not a number of connections"),
        ("redis://host?max_connections", {}, "gives 'max_connections' no value"),
        ("redis://host?notify=maybe", {}, "notify: 'maybe' is neither"),
        ("redis://host?prefix=a{b}", {}, "prefix: 'a{b}' cannot stand before keys"),
        ("redis://host", {"prefix": "p" * 41}, "up to 40"),
        ("redis://host", {"prefix": ""}, "cannot stand before keys"),
        ("redis://host/jobs", {}, "the database behind the host is a number"),
        ("redis://host/0/1", {}, "the database behind the host is a number"),
        ("redis://host/-1", {}, "the database behind the host is a number"),
        ("redis://host?db=jobs", {}, "db: 'jobs' is not the number of a database"),
        ("redis://host", {"db": "x"}, "db: 'x' is not the number"),
        ("redis://host:port/0", {}, "cannot be read"),
        ("redis://host:70000/0", {}, "cannot be read"),
        ("redis://host:0/0", {}, "its port is no number from 1 to 65535"),
        ("redis://host", {"port": 0}, "port: 0 is no port"),
        ("redis://ho st/0", {}, "a blank or a control character"),
        ("redis://host/0#1", {}, "cannot be read"),
        ("redis://[::1/0", {}, "cannot be read"),
        ("redis://one,two:6379/0", {}, "names several hosts. .*cluster"),
        ("redis+cluster://host", {}, "cluster"),
        ("http://host", {}, "its scheme is none of redis, rediss, unix"),
        ("unix://run/redis.sock", {}, "between the password and the path"),
        ("unix://", {}, "names no socket"),
        ("unix:///", {}, "names no socket"),
        ("rediss://host?ssl_min_version=9", {}, "ssl_min_version(: '9' is no version of TLS|'. It takes the)"),
        ("rediss://host?ssl_cert_reqs=maybe", {}, "ssl_cert_reqs: 'maybe' is none of none, optional, required"),
        ("redis://me:pw@host", {"credential_provider": Provider()}, "not both"),
        ("redis://host", {"credential_provider": SECRET}, "credential_provider: .* get_credentials"),
        ("redis://host", {"password": {"a": SECRET}}, "password: it is not text"),
        ("redis://host", {"password": 12}, "password: it is not text"),
        ("redis://host", {"username": [SECRET]}, "username: it is not text"),
        ("redis://host", {"host": 5}, "host: 5 is not text"),
        ("redis://host", {"host": ""}, "host: '' is not text"),
        ("redis://host", {"client_name": "my shop"}, "client_name: 'my shop' .* without blanks"),
        ("redis://host?client_name=my%20shop", {}, "redis://host.*client_name: 'my shop'"),
        ("redis://host", {"socket_keepalive_options": "x"}, "socket_keepalive_options: 'x' is not a mapping"),
        ("redis://host", {"socket_keepalive_options": {"a": 1}}, "socket_keepalive_options: .* is not a mapping"),
        ("redis://host", {"socket_type": "tcp"}, "socket_type: 'tcp' is not one of Python's"),
    ],
)
def test_what_means_nothing_is_refused(url, options, said):
    with pytest.raises(ConfigurationError, match=said) as told:
        parse_url(url, options)
    assert SECRET not in str(told.value)


@pytest.mark.parametrize("query", ["max_connections=0", "timeout=soon", "notify=maybe", "prefix=a{b}", "db=jobs"])
def test_what_is_wrong_in_the_urls_query_names_the_url(query):
    with pytest.raises(ConfigurationError, match=r"^the store URL 'redis://host': \w+: "):
        parse_url(f"redis://host?{query}", {})


def test_none_leaves_it_open():
    nothing = dict.fromkeys(("username", "password", "client_name", "credential_provider", "socket_keepalive_options"))
    assert parse_url("redis://host", nothing)[0].keywords["password"] is None


# --- passwords --------------------------------------------------------------------------------------------------------

AWKWARD = "@/?#: %&=+[]\\'\"é\n$;,"
SHAPES = ["s3{}cr3t", "{}s3cr3t", "12{}s3cr3t", "s3cr3t{}", "s3{0}12{0}cr3t", "12{0}34@s3cr3t", "1{0}db=s3cr3t"]
PLACES = [
    "redis://me:{}@host:6379/0",
    "redis://:{}@host",
    "rediss://me:{}@host/0?prefix=x",
    "unix://:{}@/run/redis.sock",
    "unix://me:{}@/run/redis.sock?db=1",
    "redis://host/0?password={}",
    "redis://host/0?password={}&prefix=x",
    "unix:///run/redis.sock?password={}",
]


def parts_of(password):
    """What may not be shown: the password, and each part of it that a misreading would cut out."""
    return {part for part in ("s3cr3t", "cr3t") if part in password}


@pytest.mark.parametrize("character", AWKWARD)
def test_a_raw_character_in_a_password_is_meant_or_refused_and_never_shown(character):
    for place in PLACES:
        for shape in SHAPES:
            _check_password(place, shape.format(character))


def _check_password(place, password):
    url = place.format(password)
    try:
        address, options = parse_url(url, {})
    except ConfigurationError as error:
        told = f"{error} {error.__cause__} {error.__context__}"
        assert not any(part in told for part in parts_of(password)), told
        return
    keywords = dict(address.keywords)
    if place.endswith(("={}", "={}&prefix=x")):
        password = password.removesuffix("&")  # which ends an option in any URL
    assert keywords.pop("password") == unquote(password), url
    assert set(keywords) <= {"username", "host", "port", "db", "path"}, url
    assert keywords.get("host", "host") == "host" and keywords.get("path", "/run/redis.sock") == "/run/redis.sock", url
    assert SECRET not in repr(address) + repr(options)


@pytest.mark.parametrize("place", PLACES)
def test_an_escaped_password_is_what_was_meant(place):
    password = AWKWARD + SECRET
    assert settings(place.format(quote(password, safe="")))["password"] == password


@pytest.mark.parametrize("query", ["s3cr3t=1", "password=a&s3cr3t=1", "username=a&s3cr3t"])
def test_an_unknown_option_is_not_named_where_it_may_be_a_part_of_the_password(query):
    for url in (f"redis://me:pw@host?{query}", f"redis://host?password=x&{query.removeprefix('password=a&')}"):
        with pytest.raises(ConfigurationError, match="does not take one of the options in its query") as told:
            parse_url(url, {})
        assert SECRET not in str(told.value)


@pytest.mark.parametrize(
    "url", ["redis://host?pasword=s3cr3t", "redis://me:s3cr3t", "redis://me:s3cr3t/0", "redis://me:s3cr3t?db=1"]
)
def test_what_was_meant_to_be_a_password_is_not_shown(url):
    with pytest.raises(ConfigurationError) as told:
        parse_url(url, {})
    assert SECRET not in str(told.value) and re.search(r"redis://(host|me)", str(told.value))


def test_the_settings_are_those_that_the_driver_takes():
    for kind, made in {"redis": redis.Connection, "rediss": redis.SSLConnection}.items():
        address, _ = parse_url(f"{kind}://me:pw@host:1/2?client_name=me", {"socket_keepalive": True})
        made(**address.keywords)
    redis.UnixDomainSocketConnection(**parse_url("unix://me:pw@/run/x?db=1", {})[0].keywords)
