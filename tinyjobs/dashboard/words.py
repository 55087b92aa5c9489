"""What the pages call things, to be translated: statuses, actions, and why a job was left as it is."""

from collections.abc import Mapping

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

type Text = str | Promise

STATUSES: Mapping[str, Text] = {
    "queued": _("queued"),
    "held": _("held"),
    "waiting": _("waiting"),
    "running": _("running"),
    "success": _("success"),
    "failed": _("failed"),
    "cancelled": _("cancelled"),
    "timeout": _("timeout"),
    "lost": _("lost"),
}

#: What a button of an action says, and what is said of jobs that it was done to.
JOB_ACTIONS: Mapping[str, Text] = {"retry": _("Retry"), "cancel": _("Cancel"), "delete": _("Delete")}
JOBS_DONE: Mapping[str, Text] = {
    "retry": _("queued again"),
    "cancel": _("cancelled"),
    "delete": _("deleted"),
}
JOB_QUESTIONS: Mapping[str, Text] = {
    "retry": _("Put these jobs back into their queues, with all of their attempts?"),
    "cancel": _("Cancel these jobs? What a running one does is not interrupted, but no longer counts."),
    "delete": _("Delete these jobs with their history? This cannot be undone."),
}
SCHEDULE_ACTIONS: Mapping[str, Text] = {
    "pause": _("Pause"),
    "resume": _("Resume"),
    "run": _("Run now"),
    "delete": _("Delete"),
}
MISFIRES: Mapping[str, Text] = {
    "skip": _("skip them"),
    "run_once": _("run once"),
    "run_all": _("run each"),
}


def status_word(status: object) -> Text:
    """The word for a status; one that is not known stays as it is."""
    return STATUSES.get(str(status), str(status))
