"""A language in which every text that was translated stands in marks, and what of a page does not.

The language is German as the catalogues have it. Values in a text stand outside of the marks, so an English sentence
that was put into a German one is seen as well. What the tests put into a store is Greek, so Latin letters outside of
the marks are words that nobody has translated, but for names of code and of settings.
"""

import re
from html.parser import HTMLParser

from django.utils.translation import trans_real

_PLACES = re.compile(r"(%\(\w+\)[sd]|%[sd]|%%|\{\w*\})")
_MARKED = re.compile(r"⟦[^⟦⟧]*⟧")
_SHOWN = ("title", "aria-label", "placeholder", "alt", "label", "data-on", "data-off", "data-failed", "content")
_VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
_NAMES = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|…[0-9a-f-]{12}"
    r"|tests(\.taskbackend\.shop)?\.\w+(\.\w+)*|\b(UTC|Europe/Rome|SQLite|JSON|TASKS|DATABASES)\b|\b(default|IMMEDIATE)\b|@[a-z]+|\b\w+Error\b"
)


class Marked(trans_real.DjangoTranslation):
    """German with marks around every text that it has a translation of."""

    def gettext(self, message):
        found = self._catalog.get(message) or self._catalog.get((message, 0))
        if not found:
            return message
        return ",".join(map(_mark, found.split(","))) if message == "yes,no,maybe" else _mark(found)

    def ngettext(self, singular, plural, number):
        return _mark(super().ngettext(singular, plural, number)) if (singular, 0) in self._catalog else plural


def _mark(text):
    parts = _PLACES.split(text)
    return "".join(f"⟦{part}⟧" if part and number % 2 == 0 else part for number, part in enumerate(parts))


class _Reader(HTMLParser):
    """Gathers what people see or hear of a page: `told`, and apart from it what is said to be English."""

    def __init__(self):
        super().__init__()
        self.told, self.english, self._open = [], [], []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag not in _VOID:
            self._open.append((tag, given))
        if not self._is_code():
            self.told += [given[name] for name in _SHOWN if given.get(name) and (tag, name) != ("meta", "content")]
            if tag == "input" and given.get("type") in ("submit", "button"):
                self.told.append(given.get("value", ""))

    def handle_endtag(self, tag):
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data):
        if any(given.get("lang") == "en" for tag, given in self._open if tag != "html"):
            self.english.append(data.strip())
        elif not self._is_code():
            self.told.append(data)

    def _is_code(self):
        return any(tag in ("script", "style", "pre", "code", "textarea") for tag, _ in self._open)


def unmarked(page):
    """The texts in a page with words outside of the marks."""
    reader = _Reader()
    reader.feed(page)
    return [text.strip() for text in reader.told if has_words(text)]


def english(page):
    """The texts that a page says are in English: what a store or a driver said."""
    reader = _Reader()
    reader.feed(page)
    return [text for text in reader.english if text]


def has_words(text):
    """Whether a text has words of English or of any language with such letters outside of the marks."""
    return bool(re.search(r"[A-Za-z]", _NAMES.sub(" ", _MARKED.sub(" ", text))))
