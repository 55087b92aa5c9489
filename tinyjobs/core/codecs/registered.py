"""The types a program registers with its codec: dataclasses, enums, and anything else by an adapter.

A payload only ever names a kind. The class behind the name is the one this process registered, so nothing is imported
or looked up on the word of a stored row. What cannot work is refused at registration, with `ConfigurationError`.
"""

import builtins
import dataclasses
import enum
import inspect
from typing import Any, Protocol

from tinyjobs.core.codecs.kinds import Kind, Refused, expect
from tinyjobs.core.errors import ConfigurationError


class TypeAdapter(Protocol):
    """How values of one type are written. `encode` may answer with anything the codec covers, `decode` gets it back.

    Only values whose type is exactly `type` are given to it, subclasses are not. `name` is what the stored payload
    calls them: keep it when the class moves or is renamed, and rows written before can still be read.
    """

    @property
    def type(self) -> builtins.type[Any]:
        """The class whose values this adapter writes."""
        ...

    @property
    def name(self) -> str:
        """What a payload calls such a value."""
        ...

    def encode(self, value: Any) -> object:
        """Return the value in simpler terms."""
        ...

    def decode(self, value: Any) -> object:
        """Return an equal value, made of what `encode` answered."""
        ...


def dataclass_kind(cls: Any, name: str | None) -> Kind:
    """The kind for a dataclass: its fields by name.

    A stored field that the class no longer has is ignored; one that the stored value lacks takes its default. The
    class is called with the fields its `__init__` takes, so its checks run, and then holds every stored field as it
    was, also where `__post_init__` would have computed something else.
    """
    if not (isinstance(cls, type) and dataclasses.is_dataclass(cls)):
        raise ConfigurationError(f"register_dataclass takes a class decorated with @dataclass, not {cls!r}.")
    fields = {field.name: field for field in dataclasses.fields(cls)}
    taken = [field.name for field in fields.values() if field.init]
    for parameter in inspect.signature(cls).parameters.values():
        optional = parameter.default is not parameter.empty or parameter.kind.name.startswith("VAR_")
        if not optional and parameter.name not in taken:
            raise ConfigurationError(
                f"{cls.__qualname__} cannot be registered as a dataclass: {parameter.name!r} is needed to create one "
                "but is not kept as a field. Register an adapter with register_type."
            )
    required = [
        name
        for name in taken
        if fields[name].default is dataclasses.MISSING and fields[name].default_factory is dataclasses.MISSING
    ]

    def take_apart(value: Any) -> dict[str, object]:
        return {field: getattr(value, field) for field in fields if hasattr(value, field)}

    def build(stored: object) -> object:
        given = {field: part for field, part in expect(stored, dict).items() if field in fields}
        if missing := [field for field in required if field not in given]:
            raise ValueError(f"it lacks {', '.join(missing)}, and {cls.__qualname__} has no default for that")
        made = cls(**{field: given[field] for field in taken if field in given})
        for field, part in given.items():
            if getattr(made, field, given) is not part:
                object.__setattr__(made, field, part)  # frozen ones as well
        return made

    return Kind(cls.__name__ if name is None else name, cls, take_apart, build)


def enum_kind(cls: Any, name: str | None) -> Kind:
    """The kind for an enum: a member by its name, a flag by its number, which is the only word for a combination."""
    if not (isinstance(cls, type) and issubclass(cls, enum.Enum)):
        raise ConfigurationError(f"register_enum takes a subclass of enum.Enum, not {cls!r}.")
    tag = cls.__name__ if name is None else name
    if issubclass(cls, enum.Flag):
        return Kind(tag, cls, lambda value: value.value, lambda stored: cls(expect(stored, int)))

    def take_apart(value: enum.Enum) -> str:
        if cls.__members__.get(value.name) is not value:
            raise Refused(f"it is no named member of {cls.__qualname__}, so its name could not bring it back")
        return value.name

    def build(stored: object) -> enum.Enum:
        member = cls.__members__.get(expect(stored, str))
        if member is None:
            raise ValueError(f"{cls.__qualname__} has no member {stored!r}")
        return member

    return Kind(tag, cls, take_apart, build)


def adapter_kind(adapter: TypeAdapter) -> Kind:
    """The kind for a type that brings its own way of being written."""
    if not isinstance(getattr(adapter, "type", None), type):
        raise ConfigurationError(
            f"register_type takes an adapter whose `type` is the class it writes, not {adapter!r}."
        )
    for method in ("encode", "decode"):
        if not callable(getattr(adapter, method, None)):
            raise ConfigurationError(f"The adapter {adapter!r} needs a method {method}(value).")
    return Kind(getattr(adapter, "name", ""), adapter.type, adapter.encode, adapter.decode)
