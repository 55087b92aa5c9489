"""Sentences from below Django in the language of whoever looks: cron expressions in words, findings of a check.

They come as a `Sentence`, and the templates of those that are translated stand here. A template that does not stand
here, and every text in a sentence that has no template, is shown as it is.
"""

import re
from collections.abc import Mapping

from django.utils import translation
from django.utils.dates import MONTHS, WEEKDAYS
from django.utils.translation import gettext_noop

from tinyjobs.core import cron_words
from tinyjobs.core.sentences import Sentence
from tinyjobs.dashboard.words import Text

#: Of a cron expression in words.
CRON = frozenset(
    {
        gettext_noop("every minute"),
        gettext_noop("every %(step)s minutes"),
        gettext_noop("every hour"),
        gettext_noop("every %(step)s hours"),
        gettext_noop("every day"),
        gettext_noop("at %(times)s"),
        gettext_noop("from %(first)s to %(last)s"),
        gettext_noop("at minute %(minutes)s"),
        gettext_noop("at minutes %(minutes)s"),
        gettext_noop("at every %(nth)s minute from %(first)s to %(last)s"),
        gettext_noop("of every hour"),
        gettext_noop("of hour %(hours)s"),
        gettext_noop("of hours %(hours)s"),
        gettext_noop("of every %(nth)s hour from %(first)s to %(last)s"),
        gettext_noop("in hours %(hours)s"),
        gettext_noop("in every %(nth)s hour from %(first)s to %(last)s"),
        gettext_noop("on %(weekdays)s"),
        gettext_noop("on %(first_day)s to %(last_day)s"),
        gettext_noop("and on every %(weekdays)s"),
        gettext_noop("if it is a %(weekdays)s"),
        gettext_noop("on the %(days)s"),
        gettext_noop("on every %(nth)s day from the %(first)s to the %(last)s"),
        gettext_noop("of every month"),
        gettext_noop("of %(months)s"),
        gettext_noop("in %(months)s"),
        gettext_noop("from %(first_month)s to %(last_month)s"),
        gettext_noop("%(first)s to %(last)s"),
        gettext_noop("%(names)s and %(last)s"),
        gettext_noop("%(names)s or %(last)s"),
        gettext_noop("%(number)sst"),
        gettext_noop("%(number)snd"),
        gettext_noop("%(number)srd"),
        gettext_noop("%(number)sth"),
    }
)

#: Of what `operations` finds in a check.
CHECK = frozenset(
    {
        gettext_noop("1 running job is past its lease: whoever had them died or hangs."),
        gettext_noop("%(count)s running jobs are past their lease: whoever had them died or hangs."),
        gettext_noop("1 schedule is overdue by up to %(seconds)s s: %(schedules)s."),
        gettext_noop("%(count)s schedules are overdue by up to %(seconds)s s: %(schedules)s."),
        gettext_noop("1 task is registered."),
        gettext_noop("%(count)s tasks are registered."),
        gettext_noop("No tasks are registered, so a worker could run nothing."),
        gettext_noop(
            "Import the modules that declare them: --import MODULE on the command line, tasks.py in a Django app."
        ),
        gettext_noop("Queued jobs name tasks that are not registered here: %(tasks)s."),
        gettext_noop(
            "Import the modules that declare them: --import MODULE on the command line, tasks.py in a Django "
            "app. If a task is gone for good, cancel its jobs."
        ),
        gettext_noop(
            "A worker that runs takes them back within seconds. If none does, start one; if it happens again "
            "and again, look at why workers die."
        ),
        gettext_noop("No job is due."),
        gettext_noop("The oldest due job has waited %(seconds)s s."),
        gettext_noop(
            "Nothing fires them. Start a worker without --no-scheduler, or the command `scheduler`. One that "
            "the code no longer declares is deleted with `schedules delete NAME`."
        ),
        gettext_noop("Every queued job has a task that is registered."),
        gettext_noop("No running job is past its lease."),
        gettext_noop("No schedule is overdue."),
        gettext_noop("The oldest due job of the queue %(queue)s has waited %(seconds)s s; %(allowed)s s are allowed."),
        gettext_noop("Start more workers for this queue, or find out what its jobs wait for."),
        gettext_noop("Schedules have stopped themselves: %(schedules)s. %(first)s: %(error)s"),
        gettext_noop("Mend the cause, then resume them with `schedules resume NAME`."),
        gettext_noop("%(names)s and %(count)s more"),
        gettext_noop("No worker is there; no job waits for one."),
        gettext_noop("1 worker has not been heard of: %(workers)s"),
        gettext_noop("%(count)s workers have not been heard of: %(workers)s"),
        gettext_noop("and no other one serves their queues"),
        gettext_noop("There are schedules, and nobody here fires them."),
        gettext_noop("Schedules were last looked after %(seconds)s s ago."),
        gettext_noop("1 worker is there."),
        gettext_noop("%(count)s workers are there."),
        gettext_noop("No worker is there, and jobs have been due for %(seconds)s s in %(queues)s."),
        gettext_noop("Jobs have been due for %(seconds)s s in %(queues)s, which no worker that is there serves."),
        gettext_noop("others serve their queues, so this fails only for the first %(minutes)s minutes"),
        gettext_noop("others serve their queues"),
        gettext_noop(
            "It was killed, or it hangs, is suspended or cannot reach the store. Look at its process and its "
            "log, and start another one. One that is gone is forgotten an hour after it was last seen."
        ),
        gettext_noop("Start a worker that serves these queues."),
        gettext_noop("Start a worker."),
        gettext_noop(
            "Start a worker without --no-scheduler, or the command `scheduler`; if one runs, look at its log."
        ),
    }
)
#: Of what the audits of SQLite, Postgres and Redis find.
AUDITS = frozenset(
    {
        gettext_noop("SQLite runs with %(settings)s."),
        gettext_noop("the file system %(kind)s"),
        gettext_noop("%(size)s free"),
        gettext_noop("%(path)s: journal_mode is %(mode)s, so whoever writes keeps all others from reading."),
        gettext_noop("Set PRAGMA journal_mode = WAL, once for the file. A worker does so when it opens it."),
        gettext_noop("%(path)s: synchronous is OFF, so a power cut may spoil the whole file."),
        gettext_noop("Set PRAGMA synchronous to NORMAL or FULL for every connection."),
        gettext_noop("(what is committed outlives every crash of a process; a power cut may undo the last commits)"),
        gettext_noop("(what is committed outlives a power cut)"),
        gettext_noop("the file system"),
        gettext_noop(
            "%(path)s is a mount of that one file, so its -wal and -shm are made outside of it and vanish "
            "with the container."
        ),
        gettext_noop("Mount the folder that holds the file instead."),
        gettext_noop("the free space"),
        gettext_noop("%(folder)s has %(size)s left, and SQLite refuses every write when it has none."),
        gettext_noop("Make room: %(size)s at least."),
        gettext_noop("Not checked: %(settings)s."),
        gettext_noop("SQLite in memory: jobs end with the process."),
        gettext_noop("here, off by default: what your own connections commit may be lost in a crash, jobs included"),
        gettext_noop("Postgres runs with %(settings)s."),
        gettext_noop("Not checked, as the server does not tell: %(settings)s."),
        gettext_noop(
            "synchronous_commit is off: a crash of the server loses the last commits, and jobs that were acknowledged."
        ),
        gettext_noop("Set synchronous_commit to on, for the server, the database or the role."),
        gettext_noop("whether it is a standby"),
        gettext_noop("fsync off, as everywhere on Neon, whose storage keeps what is committed"),
        gettext_noop("the role of a standby"),
        gettext_noop("the role of a primary"),
        gettext_noop("The server is a standby or still recovering, and refuses every write."),
        gettext_noop("Connect to the primary; with several hosts in the URL, add target_session_attrs=read-write."),
        gettext_noop("default_transaction_read_only is on, so every write is refused."),
        gettext_noop(
            "Set it to off for the server, the database or the role. Some hosts turn it on when the disk is full."
        ),
        gettext_noop("fsync is off: a crash of the machine may lose or spoil what was committed."),
        gettext_noop("Set fsync = on in postgresql.conf and reload the server."),
        gettext_noop(
            "%(path)s is on a network file system (%(kind)s), where SQLite's locks cannot be relied on and "
            "WAL has no shared memory."
        ),
        gettext_noop("Move the file to a local disk; for several machines, keep jobs in Postgres or Redis."),
        gettext_noop("%(path)s is in memory (%(kind)s), which a reboot empties."),
        gettext_noop("Move the file to a disk."),
        gettext_noop("%(path)s is in the writable layer of a container (%(kind)s), which is gone with the container."),
        gettext_noop("Put the file's folder on a volume."),
        gettext_noop("The server runs with %(settings)s."),
        gettext_noop("Not checked, as INFO does not tell: %(settings)s."),
        gettext_noop("The server is a replica, which takes no writes."),
        gettext_noop("appendonly is off: on snapshots alone a crash loses the jobs that were sent since the last one."),
        gettext_noop("Set appendonly to yes, by CONFIG SET and in redis.conf, with appendfsync everysec or always."),
        gettext_noop(
            "The last write to the append-only file failed, and the server takes no writes until one succeeds."
        ),
        gettext_noop("Look in the server's log; often its disk is full or its directory cannot be written."),
        gettext_noop(
            "The last snapshot failed: while save points are configured the server refuses every write (MISCONF)."
        ),
        gettext_noop(
            "Look in the server's log; often its disk is full, its directory cannot be written, or it has "
            "too little memory to fork (vm.overcommit_memory). Then call BGSAVE."
        ),
        gettext_noop("no maxmemory"),
        gettext_noop(
            "The server uses %(used)s bytes of its %(limit)s (maxmemory), %(share)s: when they are used up, "
            "jobs are refused (OOM), or dropped where maxmemory-policy lets it."
        ),
        gettext_noop("Raise maxmemory, or have ended jobs purged sooner (retention)."),
        gettext_noop("%(share)s of its maxmemory in use"),
        gettext_noop("Give the URL of the primary, %(primary)s, or of a name that follows it."),
        gettext_noop("Give the URL of the primary, or of a name that follows it."),
        gettext_noop("the last snapshot ok"),
        gettext_noop("maxmemory-policy is %(policy)s: when its memory is full the server drops jobs without a word."),
        gettext_noop("Set maxmemory-policy to noeviction, by CONFIG SET and in redis.conf."),
        gettext_noop("(when it is full jobs stay, figures may go)"),
        gettext_noop("Not checked: the server does not say how it is set up. %(error)s"),
        gettext_noop("Grant the user of the store's URL the command INFO (+info)."),
    }
)
#: Of what the task backend finds in a check.
PROJECT = frozenset(
    {
        gettext_noop("Tables or indexes are missing or not as they should be: %(missing)s."),
        gettext_noop("`manage.py migrate` puts them back."),
        gettext_noop("Tables and indexes are as they should be."),
        gettext_noop(
            'Transactions of this project that read before they write fail with "database is locked" whenever a worker '
            "wrote in between."
        ),
        gettext_noop("Set DATABASES[%(alias)s]['OPTIONS']['transaction_mode'] = 'IMMEDIATE'."),
        gettext_noop("%(module)s cannot be imported: %(error)s"),
        gettext_noop("Until it can, workers do not know the tasks in it, nor their schedules."),
    }
)
#: Of what the pages themselves say of a store and of what is in it.
PAGES = frozenset(
    {
        gettext_noop("%(where)s gave no answer within %(seconds)s s."),
        gettext_noop("%(where)s: the transaction of this request was lost, so nothing was changed."),
        gettext_noop("%(size)s bytes of pickle, which is not read here."),
        gettext_noop("%(size)s bytes, which are read when you ask for everything."),
    }
)
#: Of why a schedule stays as it is.
SCHEDULES = frozenset(
    {
        gettext_noop(
            "The schedule %(name)s is declared in the code (%(source)s), which would bring it back. Take it out there, "
            "or pause it."
        ),
        gettext_noop(
            "The schedule %(name)s may still be declared in what could not be imported here, %(modules)s, so it is "
            "kept. Mend that first, then ask again."
        ),
        gettext_noop(
            "%(source)s: the code declares a schedule %(name)s, or once did. Choose another name, or delete that first."
        ),
        gettext_noop("There is no schedule %(name)s."),
        gettext_noop("The schedule %(name)s was moved by others %(tries)s times in a row. Try again."),
    }
)
#: Of why a schedule cannot be: its cron expression, its time zone, its rule, its task.
RULES = frozenset(
    {
        gettext_noop("minute"),
        gettext_noop("hour"),
        gettext_noop("day of the month"),
        gettext_noop("month"),
        gettext_noop("weekday"),
        gettext_noop("%(low)s to %(high)s"),
        gettext_noop("%(low)s to %(high)s or %(first)s to %(last)s"),
        gettext_noop("cron %(cron)s: %(field)s %(item)s %(fault)s"),
        gettext_noop("has a step that is none: a step is a number from 1 to %(most)s."),
        gettext_noop("is a step without a range: write '%(low)s-%(high)s/%(step)s', or '%(low)s' if that is meant."),
        gettext_noop("runs backwards: write it as two ranges, '%(low)s-%(most)s,%(least)s-%(high)s'."),
        gettext_noop("cannot be: it takes %(allowed)s, lists, ranges, and steps such as '*/2'."),
        gettext_noop("cron %(cron)s is no macro. There are %(macros)s."),
        gettext_noop("cron %(cron)s has 1 field instead of five: minute, hour, day of the month, month, weekday."),
        gettext_noop(
            "cron %(cron)s has %(count)s fields instead of five: minute, hour, day of the month, month, weekday."
        ),
        gettext_noop("cron %(cron)s never fires: day of the month %(day)s does not exist in month %(month)s."),
        gettext_noop("timezone %(name)s is not known. %(remedy)s"),
        gettext_noop("This machine has no database of time zones: install the package tzdata, or use 'UTC'."),
        gettext_noop("Did you mean %(name)s?"),
        gettext_noop("Give a name of the IANA database, such as 'Europe/Berlin' or 'UTC'."),
        gettext_noop(
            "it names no timezone, and there is none for schedules that name none: TIME_ZONE in the settings is None. "
            "Set TIME_ZONE, or the option timezone, to a name such as 'Europe/Berlin' or 'UTC'."
        ),
        gettext_noop(
            "%(source)s: misfire 'run_all' needs overlap=True. Without it the jobs for missed firings would be held "
            "off by the first of them."
        ),
        gettext_noop("%(source)s: there is no task %(task)s in the installed apps."),
    }
)
_KNOWN = CRON | CHECK | AUDITS | PROJECT | PAGES | SCHEDULES | RULES

_PLACE = re.compile(r"%\(\w+\)s")

# Months and weekdays have translations in Django, so they are no texts of this package.
_CALENDAR: Mapping[str, Text] = {
    **{name: MONTHS[number] for number, name in enumerate(cron_words.MONTHS, 1)},
    **{name: WEEKDAYS[number] for number, name in enumerate(cron_words.WEEKDAYS)},
}
# Django writes their names with a capital there, as they stand in a list; within a sentence they have none.
_SMALL = ("it", "pt")


def is_known(text: Sentence) -> bool:
    """Whether translations of the sentence, and of those in it, are to be had here."""
    inner = [value for value in text.values.values() if isinstance(value, Sentence)]
    has_words = any(letter.isalpha() for letter in _PLACE.sub("", text.template))
    return (text.template in _KNOWN if has_words else bool(inner)) and all(map(is_known, inner))


def translated(text: str) -> str:
    """The text in the active language, with the values in it; one that no translation is known of stays as it is."""
    if not isinstance(text, Sentence) or not text.template:
        return text
    if text.template in _CALENDAR:
        return _name(text.template)
    values = {name: translated(value) if isinstance(value, str) else value for name, value in text.values.items()}
    template = text.template
    return (translation.gettext(template) if template in _KNOWN else template) % values


def _name(name: str) -> str:
    """A month or a weekday; in English where the words around it have no translation."""
    if translation.gettext("every day") == "every day":
        return name
    told = str(_CALENDAR[name])
    return told.lower() if (translation.get_language() or "").startswith(_SMALL) else told
