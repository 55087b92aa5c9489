"""Every text of the pages in every language: none is missing, none is left over, the compiled files are up to date."""

import ast
import re
import time
from io import StringIO
from pathlib import Path

import polib
import pytest
from django.utils.translation import override, templatize

import tinyjobs
from tests.browser.filling import fill
from tests.dashboard.conftest import text_of

PACKAGE = Path(tinyjobs.__file__).parent
LANGUAGES = ("de", "es", "fr", "it", "pt")
_CALLS = {"_", "gettext", "gettext_lazy", "gettext_noop", "ngettext", "ngettext_lazy", "pgettext"}
_PLACEHOLDER = re.compile(r"%\(\w+\)[sd]|%%")


def calls(source, name):
    """The texts in calls of gettext."""
    for node in ast.walk(ast.parse(source, name)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CALLS:
            first = node.args[0]
            assert isinstance(first, ast.Constant), f"{name}:{first.lineno}: not a text that can be translated"
            yield first.value


def used():
    """Every text that the package hands to gettext, in its code and in its templates."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        source = path.read_text("utf-8")
        if "gettext" in source:
            found.update(calls(source, path.name))
    for path in PACKAGE.rglob("*.html"):
        # Django makes something of a template that looks like code with calls, one text a call.
        made = templatize(path.read_text("utf-8"), origin=str(path))
        for match in re.finditer(
            r"\b_?n?gettext\(u?('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|\s_\(u?('(?:[^'\\]|\\.)*')", made
        ):
            found.add(ast.literal_eval((match[1] or match[2]).strip()))
    return found


def catalogue(language):
    return polib.pofile(str(PACKAGE / "locale" / language / "LC_MESSAGES" / "django.po"))


def test_the_texts_are_found():
    assert {"Background jobs", "Look at older jobs", "%(count)s job", "queued again"} <= used()


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_text_is_translated_and_none_is_left_over(language):
    entries = {entry.msgid: entry for entry in catalogue(language)}
    assert set(entries) == used()
    untranslated = [text for text, entry in entries.items() if not entry.translated() or entry.fuzzy or entry.obsolete]
    assert untranslated == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_translations_have_the_same_placeholders(language):
    for entry in catalogue(language):
        texts = list(entry.msgstr_plural.values()) if entry.msgid_plural else [entry.msgstr]
        for text in texts:
            assert sorted(_PLACEHOLDER.findall(text)) == sorted(_PLACEHOLDER.findall(entry.msgid)), text
            assert "<" not in text and text == text.strip()


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_compiled_file_has_what_the_other_says(language):
    source = catalogue(language)
    compiled = polib.mofile(str(PACKAGE / "locale" / language / "LC_MESSAGES" / "django.mo"))
    known = {entry.msgid: (entry.msgstr, entry.msgstr_plural) for entry in compiled}
    assert known == {entry.msgid: (entry.msgstr, entry.msgstr_plural) for entry in source}


@pytest.mark.parametrize(("language", "words"), [("de", "Aufträge nach Status"), ("fr", "Tâches par état")])
def test_pages_are_in_the_language_of_whoever_looks(admin, settings, language, words):
    filled = fill(time.time())
    settings.LANGUAGE_CODE = language
    with override(language):
        assert words in text_of(admin, "/admin/tinyjobs/")
        for page in ("job/", f"job/{filled.failed}/", "schedule/", "queues/", "workers/", "schedule/add/"):
            text_of(admin, f"/admin/tinyjobs/{page}")
        assert "Newer job" not in text_of(admin, f"/admin/tinyjobs/job/{filled.failed}/")


def test_a_text_that_is_built_at_run_time_would_be_seen():
    with pytest.raises(AssertionError, match="not a text"):
        list(calls(StringIO("_(f'{count} jobs')").read(), "views.py"))
