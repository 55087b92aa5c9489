"""What the audits of all stores are gathered in. Knows no store, and no setting by name."""

from dataclasses import dataclass, field

from tinyjobs.core.sentences import Sentence
from tinyjobs.core.watching import Finding

#: What the finding is called that passes and says what a store runs with.
SETTINGS = "settings"


@dataclass(slots=True, kw_only=True)
class AuditReport:
    """The problems as they are found, what the store runs with, and what could not be looked at."""

    failed: list[Finding] = field(default_factory=list)
    runs_with: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    def fail(self, name: str, message: Sentence, remedy: Sentence) -> None:
        """Note a problem."""
        self.failed.append(Finding(name=name, ok=False, message=message, remedy=remedy))

    def ended(self, message: str) -> list[Finding]:
        """The findings: the problems, and behind them the one that passes, with this message."""
        return [*self.failed, Finding(name=SETTINGS, ok=True, message=message, is_unknown=bool(self.unknown))]
