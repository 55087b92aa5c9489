"""Types of the program's own: dataclasses, enums and adapters, across changes of the code that reads them."""

import dataclasses
import enum
from decimal import Decimal

import pytest

from tests.codecs.values import Access, Colour, Line, Money, Priority, shape
from tinyjobs.core.codecs.tagged import JSONCodec
from tinyjobs.core.errors import ConfigurationError, SerializationError


class Celsius:
    def __init__(self, degrees):
        self.degrees = degrees

    def __eq__(self, other):
        return type(other) is Celsius and other.degrees == self.degrees


class CelsiusAdapter:
    type = Celsius
    name = "celsius"

    def encode(self, value):
        return (value.degrees, {"of": Decimal("0.1")})

    def decode(self, value):
        assert type(value) is tuple and value[1] == {"of": Decimal("0.1")}
        return Celsius(value[0])


def reading(codec: JSONCodec, text: str) -> object:
    return codec.decode(text.encode())


def test_registered_types_are_stored_under_their_names():
    codec = JSONCodec()
    codec.register_dataclass(Money)
    codec.register_enum(Priority, name="prio")
    codec.register_enum(Access)
    assert codec.encode(Money(Decimal("1.5"))) == (
        b'{"$t":"Money","$v":{"amount":{"$t":"decimal","$v":"1.5"},"currency":"EUR"}}'
    )
    assert codec.encode([Priority.URGENT, Access.READ | Access.RUN]) == (
        b'[{"$t":"prio","$v":"HIGH"},{"$t":"Access","$v":5}]'
    )


def test_they_nest():
    codec = JSONCodec()
    codec.register_dataclass(Line)
    codec.register_dataclass(Money)
    codec.register_enum(Colour)
    codec.register_type(CelsiusAdapter())
    sent = {Money(Decimal(1)): Line("a", Celsius(21.5), [(Line("b", {Colour.RED}), Celsius(None))])}
    back = codec.decode(codec.encode(sent))
    assert back == sent
    assert shape(back[Money(Decimal(1))].tags[0][0]) == shape(sent[Money(Decimal(1))].tags[0][0])


def test_registering_serves_as_a_decorator_and_may_be_repeated():
    codec = JSONCodec()

    @codec.register_dataclass
    @dataclasses.dataclass
    class Box:
        size: int

    assert codec.register_dataclass(Box) is Box
    assert codec.register_enum(Colour) is Colour
    assert codec.register_enum(Colour) is Colour
    assert codec.decode(codec.encode(Box(3))) == Box(3)


def test_a_class_made_again_by_a_reload_takes_the_place_of_the_old_one():
    codec = JSONCodec()

    def load():
        @dataclasses.dataclass
        class Box:
            size: int

        return codec.register_dataclass(Box)

    old, new = load(), load()
    assert type(codec.decode(codec.encode(new(1)))) is new
    assert type(codec.decode(codec.encode(old(1)))) is new


def test_codecs_do_not_share_registrations():
    codec, other = JSONCodec(), JSONCodec()
    codec.register_enum(Colour)
    with pytest.raises(SerializationError):
        other.encode(Colour.RED)
    with pytest.raises(SerializationError, match="'Colour'"):
        other.decode(codec.encode(Colour.RED))


# A payload written by other code than reads it.


def test_unknown_fields_are_ignored_and_missing_ones_take_their_default():
    codec = JSONCodec()
    codec.register_dataclass(Line)
    assert reading(codec, '{"$t":"Line","$v":{"title":"a","amount":1,"later":[2]}}') == Line("a", 1, [])


def test_a_missing_field_without_default_is_named():
    codec = JSONCodec()
    codec.register_dataclass(Line)
    with pytest.raises(SerializationError, match=r"'Line'.*lacks amount.*no default"):
        reading(codec, '{"$t":"Line","$v":{"title":"a"}}')


def test_a_member_that_is_gone():
    codec = JSONCodec()
    codec.register_enum(Colour)
    codec.register_enum(Access)
    with pytest.raises(SerializationError, match="no member 'GREEN'"):
        reading(codec, '{"$t":"Colour","$v":"GREEN"}')
    with pytest.raises(SerializationError, match="'Access'"):
        reading(codec, '{"$t":"Access","$v":64}')
    with pytest.raises(SerializationError, match="'Colour'"):
        reading(codec, '{"$t":"Colour","$v":["RED"]}')


def test_an_unknown_tag_names_itself_and_the_remedy():
    with pytest.raises(SerializationError, match=r"'os\.system'.*register_dataclass.*register_enum.*register_type"):
        reading(JSONCodec(), '{"$t":"os.system","$v":"true"}')


# What a dataclass may do.


def test_fields_come_back_exactly_even_where_the_class_computes_them():
    @dataclasses.dataclass
    class Order:
        net: int
        total: int = dataclasses.field(init=False)
        late: int = dataclasses.field(init=False)
        seen: dataclasses.InitVar[int] = 0

        def __post_init__(self, seen):
            self.total = self.net * 2
            self.net += 1  # not idempotent
            self.shown = f"{self.net}"

    codec = JSONCodec()
    codec.register_dataclass(Order)
    order = Order(10)
    order.total = 99
    back = codec.decode(codec.encode(order))
    assert (back.net, back.total) == (11, 99)
    assert not hasattr(back, "late")
    assert back.shown  # what is no field was set by the class itself


def test_the_checks_of_a_dataclass_run_on_what_is_stored():
    @dataclasses.dataclass
    class Even:
        n: int

        def __post_init__(self):
            if self.n % 2:
                raise ValueError("odd")

    codec = JSONCodec()
    codec.register_dataclass(Even)
    with pytest.raises(SerializationError, match=r"'Even'.*odd"):
        reading(codec, '{"$t":"Even","$v":{"n":3}}')


def test_keyword_only_frozen_and_slotted_fields():
    @dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
    class Range:
        low: int
        high: int = 9
        note: str = dataclasses.field(init=False, default="x")

    codec = JSONCodec()
    codec.register_dataclass(Range)
    value = Range(low=1)
    object.__setattr__(value, "note", "changed")
    assert codec.decode(codec.encode(value)) == value


def test_a_subclass_needs_a_registration_of_its_own():
    @dataclasses.dataclass
    class Special(Line):
        pass

    codec = JSONCodec()
    codec.register_dataclass(Line)
    with pytest.raises(SerializationError, match="Special"):
        codec.encode(Special("a", 1))


def test_an_enum_value_without_a_name_of_its_own_is_refused():
    class Loose(enum.Enum):
        A = 1

        @classmethod
        def _missing_(cls, value):
            made = object.__new__(cls)
            made._name_, made._value_ = "A", value
            return made

    codec = JSONCodec()
    codec.register_enum(Loose)
    assert codec.decode(codec.encode(Loose.A)) is Loose.A
    with pytest.raises(SerializationError, match=r"no named member of .*Loose"):
        codec.encode(Loose(7))


# What cannot be registered.


@dataclasses.dataclass
class NeedsMore:
    x: int
    secret: dataclasses.InitVar[int]


def adapter(**attributes: object) -> object:
    return type("Adapter", (CelsiusAdapter,), attributes)()


@pytest.mark.parametrize(
    ("register", "what", "message"),
    [
        ("register_dataclass", Celsius, "@dataclass"),
        ("register_dataclass", Money(Decimal(1)), "@dataclass"),
        ("register_dataclass", NeedsMore, "'secret' is needed"),
        ("register_enum", Celsius, r"enum\.Enum"),
        ("register_enum", Colour.RED, r"enum\.Enum"),
        ("register_type", Celsius, "`type`"),
        ("register_type", adapter(type=None), "`type`"),
        ("register_type", adapter(type=dict), "covered by the codec"),
        ("register_type", adapter(type=Decimal), "covered by the codec"),
        ("register_type", adapter(encode=None), r"encode\(value\)"),
        ("register_type", adapter(decode="x"), r"decode\(value\)"),
        ("register_type", adapter(name=""), "name of 1 to 100"),
        ("register_type", adapter(name=None), "name of 1 to 100"),
        ("register_type", adapter(name="a\0"), "name of 1 to 100"),
        ("register_type", adapter(name="\ud800"), "name of 1 to 100"),
        ("register_type", adapter(name="x" * 101), "name of 1 to 100"),
        ("register_type", adapter(name="decimal"), "belongs to the codec itself"),
    ],
)
def test_what_cannot_work_is_refused_at_registration(register, what, message):
    with pytest.raises(ConfigurationError, match=message):
        getattr(JSONCodec(), register)(what)


def test_two_classes_of_one_name_need_a_name_each():
    codec = JSONCodec()
    codec.register_dataclass(Money)

    @dataclasses.dataclass
    class Other:
        n: int

    Other.__name__ = "Money"
    with pytest.raises(ConfigurationError, match=r"values\.Money has the name 'Money' already.*name="):
        codec.register_dataclass(Other)
    codec.register_dataclass(Other, name="OtherMoney")
    with pytest.raises(ConfigurationError, match="registered already, under the name 'OtherMoney'"):
        codec.register_dataclass(Other, name="Third")
    assert codec.decode(codec.encode([Other(1), Money(Decimal(2))])) == [Other(1), Money(Decimal(2))]
