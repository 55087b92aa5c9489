"""What the pages can change, each behind POST, the token against forged forms, and a right of its own.

An action on jobs first shows how many it is about and asks; then each job has an outcome of its own. Answers are
redirects, so that reloading a page repeats nothing. Nothing here is cut short, since a write that was might still land.
"""

import logging
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.db import DatabaseError, InterfaceError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect, QueryDict
from django.template.response import TemplateResponse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from tinyjobs.core.errors import StoreBusyError, StoreUnavailableError, TinyJobsError
from tinyjobs.core.ids import is_job_id
from tinyjobs.core.inline import finish
from tinyjobs.core.sentences import say
from tinyjobs.core.transitions import can_cancel, can_retry
from tinyjobs.dashboard import words
from tinyjobs.dashboard.forms import ScheduleForm, saved, shown_values
from tinyjobs.dashboard.logbook import log_jobs, log_schedule
from tinyjobs.dashboard.pages.asking import NotThere, Query
from tinyjobs.dashboard.pages.schedules import schedule as schedule_page
from tinyjobs.dashboard.rights import Rights
from tinyjobs.dashboard.services import Desk
from tinyjobs.dashboard.troubles import told
from tinyjobs.dashboard.views import NoAlias, no_stores, store_trouble, told_at_once, unquoted
from tinyjobs.runtime import schedules

if TYPE_CHECKING:
    from tinyjobs.dashboard.site import Dashboard

logger = logging.getLogger("tinyjobs.dashboard")

#: The most jobs that one request changes.
MOST_JOBS = 200
# What of a list's address is kept over an action.
_KEPT = ("status", "queue", "task", "q", "cursor")


class JobAction:
    """`job/act/`: retry, cancel or delete the jobs that were chosen."""

    methods = ("POST",)

    def __init__(self, dashboard: "Dashboard") -> None:
        self.dashboard = dashboard
        self.__name__ = "act"

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Ask, or do it where that was confirmed."""
        if request.method not in self.methods:
            return HttpResponseNotAllowed(self.methods)
        action = request.POST.get("action", "")
        if action not in words.JOB_ACTIONS:
            raise Http404(_("There is no such action."))
        rights = Rights(self.dashboard.site, request)
        if not rights.may(action):
            raise PermissionDenied
        alias: str | None = None
        try:
            alias, desk = self.dashboard.desk_for(request)
            ids = list(dict.fromkeys(filter(is_job_id, request.POST.getlist(ACTION_CHECKBOX_NAME))))
            if not 0 < len(ids) <= MOST_JOBS:
                self._complain(request, len(ids))
            elif request.POST.get("confirmed") != "yes":
                return self._question(request, rights, desk, action, ids)
            elif not self._act(request, desk, action, ids):
                return told_at_once(self.dashboard, request, rights, alias, self._back(request, alias, action, ids))
        except NoAlias:
            return no_stores(self.dashboard, request)
        except NotThere:
            raise Http404(_("There is nothing of that name here.")) from None
        except (TinyJobsError, DatabaseError, InterfaceError) as error:
            return store_trouble(self.dashboard, request, alias, error)
        return HttpResponseRedirect(self._back(request, alias, action, ids))

    def _complain(self, request: HttpRequest, count: int) -> None:
        if count:
            text = _("%(count)d jobs are too many at once; choose up to %(most)d.")
            messages.error(request, text % {"count": count, "most": MOST_JOBS})
        else:
            messages.warning(request, _("No job was chosen."))

    def _question(
        self, request: HttpRequest, rights: Rights, desk: Desk, action: str, ids: Sequence[str]
    ) -> HttpResponse:
        kept = self.dashboard.alias_query(desk.alias)
        context = {
            **self.dashboard.shared(request, rights, desk.alias, "tinyjobs_job_changelist"),
            "layout": "admin/tinyjobs/base.html",
            "title": words.JOB_ACTIONS[action],
            "question": words.JOB_QUESTIONS[action],
            "action": action,
            "act_url": self.dashboard.url("tinyjobs_job_act"),
            "back_url": self._back(request, desk.alias, "", ids),
            "checkbox": ACTION_CHECKBOX_NAME,
            "jobs": [
                {"id": job_id, "url": self.dashboard.url("tinyjobs_job_change", job_id, query=kept)} for job_id in ids
            ],
            "count": len(ids),
            "filters": request.POST.get("filters", "")[:2_000],
            "back": request.POST.get("back", ""),
        }
        return TemplateResponse(request, "admin/tinyjobs/confirm.html", context)

    def _act(self, request: HttpRequest, desk: Desk, action: str, ids: Sequence[str]) -> bool:
        """Do it, and tell what became of each; whether all went without trouble of the store or of the admin's log."""
        outcomes: dict[str, list[str]] = defaultdict(list)
        done: list[str] = []
        is_well = True
        for place, job_id in enumerate(ids):
            try:
                with desk.changing():
                    why = _change(desk, action, job_id)
            except (TinyJobsError, DatabaseError, InterfaceError) as error:
                why = told(error).html
                is_well = False
                logger.warning("%s of job %s: %s", action, job_id, error)
                reason = _why_no_more(error)
                if reason and (rest := ids[place + 1 :]):
                    outcomes[why].append(job_id)
                    outcomes[reason] += rest
                    break
            if why is None:
                done.append(job_id)
            else:
                outcomes[why].append(job_id)
        if done:
            word = str(words.JOBS_DONE[action])
            is_noted = log_jobs(self.dashboard.site, request, desk.alias, action, word, done)
            is_well = _tell(request, desk, _outcome(word, done), is_noted=is_noted) and is_well
        for why, left in outcomes.items():
            messages.warning(request, _outcome(why, left))
        return is_well

    def _back(self, request: HttpRequest, alias: str | None, action: str, ids: Sequence[str]) -> str:
        """Where the form was: the job's own page, or the list with its filters."""
        kept = self.dashboard.alias_query(alias)
        if request.POST.get("back") == "job" and action != "delete" and len(ids) == 1:
            return self.dashboard.url("tinyjobs_job_change", ids[0], query=kept)
        try:
            given = QueryDict(request.POST.get("filters", "")[:2_000])
        except SuspiciousOperation:  # too many of them, and what was to be done is done
            given = QueryDict()
        filters = {name: given.get(name) for name in _KEPT}
        return self.dashboard.url("tinyjobs_job_changelist", query={**filters, **kept})


def _change(desk: Desk, action: str, job_id: str) -> str | None:
    """Do it to one job; None, or why it was left as it is."""
    store = desk.store
    verb = {"retry": store.requeue, "cancel": store.cancel, "delete": store.delete}[action]
    if finish(verb(job_id)):
        return None
    job = finish(store.get(job_id))
    if job is None:
        return _("there is no such job")
    if action == "retry":
        if can_retry(job.status):
            return _("another job holds its key")
        return _("only failed and cancelled jobs can be queued again")
    if action == "cancel" and not can_cancel(job.status):
        return _("it has ended already")
    if action == "delete" and not job.status.is_final:
        return _("only jobs that have ended can be deleted; cancel it first")
    if action == "delete":
        return _("a job that waits for it names it")
    return _("somebody else was just changing it; try again")


def _why_no_more(error: Exception) -> str | None:
    """Why jobs after one with this error are not tried: each would wait as long. None if the trouble is its own."""
    if isinstance(error, StoreUnavailableError):
        return _("not tried, since the store does not answer")
    return _("not tried, since the store is busy") if isinstance(error, StoreBusyError) else None


def _outcome(what: str, ids: Sequence[str]) -> str:
    text = ngettext("%(count)d job: %(what)s (%(ids)s)", "%(count)d jobs: %(what)s (%(ids)s)", len(ids))
    told_of = text % {"count": len(ids), "what": what, "ids": ", ".join(ids)}
    return SafeString(told_of) if isinstance(what, SafeString) else told_of  # nothing else in it could be markup


def _tell(request: HttpRequest, desk: Desk, done: str, *, is_noted: bool) -> bool:
    """Say what was done, and whether it was noted. Raises `StoreUnavailableError` where it was undone meanwhile."""
    if desk.is_undone():
        text = say(
            "%(where)s: the transaction of this request was lost, so nothing was changed.", where=desk.target.where
        )
        raise StoreUnavailableError(text)
    messages.success(request, done)
    if not is_noted:
        messages.warning(
            request,
            _("The log of the admin could not be written, so this is not in it; the log of the program has more."),
        )
    return is_noted


def _of_schedule(name: str, done: str) -> str:
    # The name does not begin it: the admin shows messages with their first letter capital.
    return _("Schedule %(name)s: %(done)s") % {"name": name, "done": done}


class ScheduleAction:
    """`schedule/act/`: pause, resume, run or delete one schedule."""

    methods = ("POST",)

    def __init__(self, dashboard: "Dashboard") -> None:
        self.dashboard = dashboard
        self.__name__ = "act"

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Do it; a deletion is asked about first."""
        if request.method not in self.methods:
            return HttpResponseNotAllowed(self.methods)
        action, name = request.POST.get("action", ""), request.POST.get("name", "")
        if action not in words.SCHEDULE_ACTIONS or not name:
            raise Http404(_("There is no such action."))
        rights = Rights(self.dashboard.site, request)
        if not rights.may_to_schedule("run" if action == "run" else "change"):
            raise PermissionDenied
        alias: str | None = None
        try:
            alias, desk = self.dashboard.desk_for(request)
            if action == "delete" and request.POST.get("confirmed") != "yes":
                return self._question(request, rights, desk, name)
            with desk.changing():
                done = self._act(request, desk, action, name)
            if done is not None and not self._note(request, desk, action, name, done):
                back = self._back(request, alias, action, name)
                return told_at_once(self.dashboard, request, rights, alias, back)
        except NoAlias:
            return no_stores(self.dashboard, request)
        except NotThere:
            raise Http404(_("There is nothing of that name here.")) from None
        except StoreUnavailableError as error:
            return store_trouble(self.dashboard, request, alias, error)
        except (TinyJobsError, TypeError) as error:
            left = _("Schedule %(name)s was left as it is.") % {"name": name}
            messages.error(request, told(error, left).html)
        except (DatabaseError, InterfaceError) as error:
            return store_trouble(self.dashboard, request, alias, error)
        return HttpResponseRedirect(self._back(request, alias, action, name))

    def _back(self, request: HttpRequest, alias: str | None, action: str, name: str) -> str:
        """Where the form was: the schedule's own page, or the list."""
        kept = self.dashboard.alias_query(alias)
        if request.POST.get("back") == "schedule" and action != "delete":
            return self.dashboard.url("tinyjobs_schedule_change", name, query=kept)
        return self.dashboard.url("tinyjobs_schedule_changelist", query=kept)

    def _act(self, request: HttpRequest, desk: Desk, action: str, name: str) -> str | None:
        """Do it; what was done, or None where nothing was, which is told then."""
        store, timetable = desk.store, desk.target.timetable
        desk.target.catalogue.find(name)  # a schedule of a decorator goes by its task's name
        if action == "pause":
            finish(schedules.pause(store, timetable, name))
            return _("paused")
        if action == "resume":
            finish(schedules.resume(store, timetable, name))
            return _("resumed")
        if action == "delete":
            finish(schedules.delete(store, timetable, name))
            return _("deleted")
        job = finish(schedules.run_now(store, timetable, desk.target.codecs, name))
        if job.existing:
            text = _("Schedule %(name)s has a job that has not ended: %(job)s.")
            messages.warning(request, text % {"name": name, "job": job.id})
            return None
        desk.target.announce(job)
        return _("run: job %(job)s") % {"job": job.id}

    def _note(self, request: HttpRequest, desk: Desk, action: str, name: str, done: str) -> bool:
        is_noted = log_schedule(self.dashboard.site, request, desk.alias, action, done, name)
        return _tell(request, desk, _of_schedule(name, done), is_noted=is_noted)

    def _question(self, request: HttpRequest, rights: Rights, desk: Desk, name: str) -> HttpResponse:
        kept = self.dashboard.alias_query(desk.alias)
        context = {
            **self.dashboard.shared(request, rights, desk.alias, "tinyjobs_schedule_changelist"),
            "layout": "admin/tinyjobs/base.html",
            "title": words.SCHEDULE_ACTIONS["delete"],
            "question": _("Delete this schedule? Its jobs stay."),
            "action": "delete",
            "act_url": self.dashboard.url("tinyjobs_schedule_act"),
            "back_url": self.dashboard.url("tinyjobs_schedule_changelist", query=kept),
            "schedule": name,
        }
        return TemplateResponse(request, "admin/tinyjobs/confirm.html", context)


class ScheduleEditor:
    """`schedule/add/` and `schedule/…/edit/`: a form for a schedule that is kept as data."""

    methods = ("GET", "HEAD", "POST")

    def __init__(self, dashboard: "Dashboard") -> None:
        self.dashboard = dashboard
        self.__name__ = "edit"

    def __call__(self, request: HttpRequest, object_id: str | None = None) -> HttpResponse:
        """Show the form, or keep what was written in it."""
        if request.method not in self.methods:
            return HttpResponseNotAllowed(self.methods)
        rights = Rights(self.dashboard.site, request)
        if not rights.may_to_schedule("change"):
            raise PermissionDenied
        name = None if object_id is None else unquoted(object_id)
        if name is not None and not rights.view_values:
            raise PermissionDenied  # the form shows the arguments
        alias: str | None = None
        try:
            alias, desk = self.dashboard.desk_for(request)
            page = None if name is None else desk.reading(lambda: schedule_page(desk, Query(given={"all": "1"}), name))
            if page is not None and not page["is_data"]:
                raise PermissionDenied(_("The code declares this schedule; change it there."))
            form = ScheduleForm(request.POST or None, desk=desk, initial=shown_values(desk, page), is_new=page is None)
            if request.method == "POST" and form.is_valid() and saved(desk, form, page):
                return self._saved(request, rights, desk, form.cleaned_data["name"], is_new=page is None)
        except NoAlias:
            return no_stores(self.dashboard, request)
        except NotThere:
            raise Http404(_("There is nothing of that name here.")) from None
        except (TinyJobsError, DatabaseError, InterfaceError) as error:
            return store_trouble(self.dashboard, request, alias, error)
        return TemplateResponse(
            request, "admin/tinyjobs/schedule_form.html", self._context(request, rights, desk, form, name)
        )

    def _saved(self, request: HttpRequest, rights: Rights, desk: Desk, name: str, *, is_new: bool) -> HttpResponse:
        done = _("added") if is_new else _("changed")
        is_noted = log_schedule(self.dashboard.site, request, desk.alias, "add" if is_new else "change", done, name)
        kept = self.dashboard.alias_query(desk.alias)
        url = self.dashboard.url("tinyjobs_schedule_change", name, query=kept)
        if not _tell(request, desk, _of_schedule(name, done), is_noted=is_noted):
            return told_at_once(self.dashboard, request, rights, desk.alias, url)
        return HttpResponseRedirect(url)

    def _context(
        self, request: HttpRequest, rights: Rights, desk: Desk, form: ScheduleForm, name: str | None
    ) -> dict[str, Any]:
        return {
            **self.dashboard.shared(request, rights, desk.alias, "tinyjobs_schedule_changelist"),
            "layout": "admin/tinyjobs/base.html",
            "title": _("Add schedule") if name is None else _("Change schedule %(name)s") % {"name": name},
            "form": form,
            "tasks": list(desk.task_names())[:200],
            "queues": list(desk.queue_names())[:200],
            "schedule": name,
        }
