"""Finding a codec by name, and pickle behind its gate."""

import logging

import pytest

from tinyjobs.core.codecs.registry import DEFAULT, CodecRegistry
from tinyjobs.core.errors import ConfigurationError, SerializationError


def test_json_is_the_default_and_always_there():
    registry = CodecRegistry()
    assert registry.get(DEFAULT) is registry.json
    assert registry.json.name == "json"


def test_pickle_is_off_by_default_and_the_error_names_the_switch(caplog):
    with caplog.at_level(logging.WARNING, "tinyjobs"):
        registry = CodecRegistry()
    with pytest.raises(SerializationError, match="allow_pickle=True"):
        registry.get("pickle")
    with pytest.raises(ConfigurationError, match=r"^@task\(codec=\).*allow_pickle=True"):
        registry.require("pickle", "@task(codec=)")
    assert not caplog.records


def test_allowed_pickle_works_and_is_warned_about_once(caplog):
    with caplog.at_level(logging.WARNING, "tinyjobs"):
        registry = CodecRegistry(allow_pickle=True)
        codec = registry.get("pickle")
        assert registry.require("pickle", "x") is codec
    assert codec.name == "pickle"
    value = {"set": {1, 2}, "complex": 1j}
    assert codec.decode(codec.encode(value)) == value
    assert codec.decode_call(codec.encode_call((1j,), {"a": value})) == ((1j,), {"a": value})
    (record,) = caplog.records
    assert record.name == "tinyjobs" and "allow_pickle" in record.getMessage() and "run" in record.getMessage()


def test_a_store_that_refuses_pickle_does_so_whatever_is_allowed(caplog):
    with caplog.at_level(logging.WARNING, "tinyjobs"):
        registry = CodecRegistry(allow_pickle=True, refuse_pickle=True)
    for find in (registry.get, lambda name: registry.require(name, "here")):
        with pytest.raises((SerializationError, ConfigurationError), match="refuse_pickle"):
            find("pickle")
    assert not caplog.records  # nothing is open that needs a warning


def test_an_unknown_codec_names_those_there_are():
    with pytest.raises(ConfigurationError, match=r"^OPTIONS\['x'\].*'yaml'.*There are: json, pickle"):
        CodecRegistry(allow_pickle=True).require("yaml", "OPTIONS['x']")
    with pytest.raises(SerializationError, match=r"'yaml'.*There are: json\."):
        CodecRegistry().get("yaml")


def test_both_codecs_read_their_own_rows_side_by_side():
    registry = CodecRegistry(allow_pickle=True)
    rows = [(name, registry.get(name).encode_call((name,), {})) for name in ("json", "pickle", "json")]
    assert [registry.get(name).decode_call(data)[0][0] for name, data in rows] == ["json", "pickle", "json"]
