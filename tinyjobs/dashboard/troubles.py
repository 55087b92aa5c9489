"""What people are told of an error: a sentence in their language, and the words of the store or of its driver.

Errors are worded in English where they are raised. One that was raised with a `Sentence` which `phrases` knows is told
by that alone. Of every other the kind is told, and its text is quoted as what it is: somebody else's words, in English.
"""

from dataclasses import dataclass
from html import unescape

from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from tinyjobs.core import errors
from tinyjobs.core.errors import StoreError, TinyJobsError
from tinyjobs.core.sentences import Sentence, said_by
from tinyjobs.dashboard import phrases

# The first that fits is told.
_KINDS: tuple[tuple[type[Exception], str | Promise], ...] = (
    (errors.StoreBusyError, gettext_lazy("The store is busy: somebody else holds what is needed.")),
    (errors.StoreUnavailableError, gettext_lazy("The store cannot be reached, or takes no writes.")),
    (
        errors.SchemaMissingError,
        gettext_lazy("What tinyjobs keeps its jobs in is missing there, or older than this release."),
    ),
    (
        errors.StoreReplacedError,
        gettext_lazy("Another store stands where the one in use was, so this process has to be started again."),
    ),
    (
        errors.NewerStoreError,
        gettext_lazy("A newer release of tinyjobs made this store, and this one cannot work on it."),
    ),
    (errors.DataRefusedError, gettext_lazy("The store refuses these values.")),
    (errors.StoreError, gettext_lazy("The store gave an error.")),
    (errors.UnsupportedCapabilityError, gettext_lazy("This store cannot do that.")),
    (errors.UnknownTaskError, gettext_lazy("No task of that name is registered here.")),
    (errors.SerializationError, gettext_lazy("A value cannot be stored, or cannot be read.")),
    (errors.ConfigurationError, gettext_lazy("Something is set in a way that cannot work.")),
)
_ENGLISH = ('<q lang="en">', "</q>")


@dataclass(frozen=True, slots=True)
class Told:
    """A sentence in the language of whoever looks, and the words that it is about, where they add something."""

    sentence: str
    words: str = ""

    def __str__(self) -> str:
        return f"{self.sentence} “{self.words}”" if self.words else self.sentence

    @property
    def html(self) -> str:
        """The same for a page."""
        return quoted_words(self.sentence, self.words)


def told(error: Exception, otherwise: str | None = None) -> Told:
    """What there is to say of an error. Those of a driver are logged and not quoted: they may hold addresses.

    `otherwise` is told of what is no trouble of the store's, in place of its kind.
    """
    said = said_by(error)
    if isinstance(said, Sentence) and phrases.is_known(said):
        return Told(phrases.translated(said))
    if otherwise is not None and not isinstance(error, StoreError):
        return Told(otherwise, str(error))
    if isinstance(error, TinyJobsError):
        kind = next((text for types, text in _KINDS if isinstance(error, types)), None)
        return Told(str(_("This cannot be done.") if kind is None else kind), str(error))
    return Told(_("The database gave an error: %(kind)s. The log has more.") % {"kind": type(error).__name__})


def quoted_words(sentence: str, words: str) -> str:
    """A sentence of ours with English words behind it, as HTML."""
    return format_html("{} {}{}{}", sentence, *_marked(words)) if words else sentence


def as_text(message: str) -> str:
    """A message as a plain text; one that is HTML has nothing but such words in it."""
    if not isinstance(message, SafeString):
        return message
    first, last = _ENGLISH
    return unescape(message.replace(first, "“").replace(last, "”"))


def _marked(words: str) -> tuple[SafeString, str, SafeString]:
    return SafeString(_ENGLISH[0]), words, SafeString(_ENGLISH[1])
