"""Sentences that remember what they were made of, so that whoever shows them can say them in another language.

It knows no language but the English of its callers, and nothing of who translates.
"""

from collections.abc import Iterable, Mapping


class Sentence(str):
    """An English text, with the template that it was made of and the values in it; a value may be a `Sentence` too.

    It is a string like any other: programs that read it, JSON and logs see the English text.
    """

    __slots__ = ("template", "values")

    template: str
    values: Mapping[str, object]

    def __new__(cls, text: str, template: str = "", values: Mapping[str, object] | None = None) -> "Sentence":
        """A text; with no template it is one that stays as it is in every language."""
        made = super().__new__(cls, text)
        made.template = template
        made.values = values or {}
        return made


def say(template: str, **values: object) -> Sentence:
    """The sentence that a template gives, whose places are like `%(name)s`; a percent sign is written `%%`."""
    return Sentence(template % values, template, values)


def said_by(error: BaseException) -> str:
    """What an error says: the sentence that it was raised with, if it was."""
    said = error.args[0] if error.args else None
    return said if isinstance(said, Sentence) else str(error)


def behind(source: str, error: BaseException) -> str:
    """What an error says behind what it is about; a sentence if the error was raised with one."""
    said = said_by(error)
    return say("%(source)s: %(said)s", source=source, said=said) if isinstance(said, Sentence) else f"{source}: {said}"


def join(parts: Iterable[str], separator: str = ", ") -> Sentence:
    """The parts in one sentence, each of which can be translated by itself if it is one; of none an empty one."""
    made = Sentence("")
    for number, part in enumerate(parts):
        one = part if isinstance(part, Sentence) else Sentence(part)
        made = say(f"%(some)s{separator}%(one)s", some=made, one=one) if number else one
    return made
