"""The table of commands: what is accepted, what is refused and how, what `--help` answers."""

import pytest

from tinyjobs.cli.main import main, make_parser
from tinyjobs.cli.options import COMMANDS, WORKER
from tinyjobs.cli.worker import last_line, worker_settings
from tinyjobs.runtime.settings import WorkerSettings
from tinyjobs.runtime.worker import WorkerReport

APP = ["--app", "work:app"]


def parsed(*arguments):
    return vars(make_parser().parse_args([*arguments, *APP]))


def leaves(commands=COMMANDS):
    for command in commands:
        yield from leaves(command.children)
        if command.options or not command.children:
            yield command


class Settings:
    """A target as far as settings go."""

    def __init__(self, **defaults):
        self.worker_defaults = defaults


def settings(*arguments, **defaults):
    return worker_settings(parsed("worker", *arguments), Settings(**defaults))


def test_without_flags_the_defaults_hold():
    assert settings() == WorkerSettings(handle_signals=False)


def test_every_flag_reaches_the_worker():
    flags = {
        "queues": ("a,b", ("a", "b")),
        "concurrency": ("2", 2),
        "async_concurrency": ("3", 3),
        "lease": ("4.5", 4.5),
        "reap_interval": ("5", 5.0),
        "poll": ("0.25", 0.25),
        "shutdown_timeout": ("0", 0.0),
        "stall": ("60", 60.0),
        "misfire_grace": ("30", 30.0),
    }
    line = [word for name, (text, _) in flags.items() for word in (f"--{name.replace('_', '-')}", text)]
    expected = {name: value for name, (_, value) in flags.items()}
    assert settings(*line, "--until-empty", "--no-scheduler") == WorkerSettings(
        **expected, scheduler=False, until_empty=True, handle_signals=False
    )


def test_every_setting_of_a_worker_is_a_flag():
    names = {option.names[0].removeprefix("--").replace("-", "_") for option in WORKER.options}
    assert set(WorkerSettings.__slots__) - {"handle_signals"} <= names


def test_the_command_line_wins_over_the_settings_over_the_defaults():
    chosen = settings("--concurrency", "2", concurrency=5, lease=7.0)
    assert (chosen.concurrency, chosen.lease, chosen.poll) == (2, 7.0, WorkerSettings().poll)


@pytest.mark.parametrize(
    ("flags", "queues"),
    [
        (["--queues", "a"], ("a",)),
        (["--queues", "a, b ,c"], ("a", "b", "c")),
        (["--queues", "a,b", "--queues", "c"], ("a", "b", "c")),
        (["--queues", "a,a"], ("a",)),
        (["--queues", "with blank,it's,ünï,🐇,a:b{}%s"], ("with blank", "it's", "ünï", "🐇", "a:b{}%s")),
        (["--queues", "q" * 255], ("q" * 255,)),
    ],
)
def test_queue_names(flags, queues):
    assert settings(*flags).queues == queues


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["worker", "--queues", ""], "argument --queues: '' is no name"),
        (["worker", "--queues", "a,,b"], "argument --queues: '' is no name"),
        (["worker", "--queues", "*"], "no comma or asterisk"),
        (["worker", "--queues", "q" * 256], "255 are allowed"),
        (["worker", "--queues", "a\nb"], "cannot be printed"),
        (["worker", "--concurrency", "0"], "argument --concurrency: 0 is not a whole number from 1 to 1000"),
        (["worker", "--concurrency", "many"], "argument --concurrency: 'many' is not a whole number"),
        (["worker", "--concurrency", "1.5"], "argument --concurrency: '1.5' is not a whole number"),
        (["worker", "--lease", "nan"], "argument --lease: nan is not a number of seconds from 1 to 86400"),
        (["worker", "--poll", "-1"], "argument --poll: -1.0 is not a number of seconds"),
        (["jobs", "list", "--limit", "0"], "argument --limit: '0' is not a whole number from 1 to 10000"),
        (["jobs", "list", "--status", "done"], "argument --status: invalid choice: 'done'"),
        (["jobs", "list", "--queue", "a,b"], "argument --queue: 'a,b' is no queue name"),
        (["jobs", "list", "--task", ""], "argument --task: '' is no name"),
        (["jobs", "retry"], "the following arguments are required: ID"),
        (["jobs"], "the following arguments are required: ACTION"),
        (["prove"], "invalid choice: 'prove'"),
        (["worker", "--workers", "3"], "unrecognized arguments: --workers 3"),
    ],
)
def test_what_is_wrong_is_refused_with_the_reason(arguments, reason, capsys):
    with pytest.raises(SystemExit) as caught:
        make_parser().parse_args([*arguments, *([] if arguments == ["jobs"] else APP)])
    assert caught.value.code == 2
    assert reason in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("arguments", "place", "reason"),
    [
        (["worker", "--queus", "x"], "worker", "unrecognized arguments: --queus x (did you mean --queues?)"),
        (["worker", "--concurency=3"], "worker", "--concurency=3 (did you mean --concurrency?)"),
        (["jobs", "list", "--stauts", "failed"], "jobs list", "--stauts failed (did you mean --status?)"),
        (["schedules", "--josn"], "schedules", "unrecognized arguments: --josn (did you mean --json?)"),
        (["schedules", "run", "--josn", "x"], "schedules run", "--josn (did you mean --json?)"),
        (["queues", "--zebra"], "queues", "unrecognized arguments: --zebra"),
        (["worker", "mail"], "worker", "unrecognized arguments: mail"),
    ],
)
def test_what_a_command_does_not_know_is_answered_by_that_command(arguments, place, reason, capsys):
    with pytest.raises(SystemExit) as caught:
        make_parser().parse_args([*arguments, *APP])
    assert caught.value.code == 2
    said = " ".join(capsys.readouterr().err.split())
    assert said.startswith(f"usage: tinyjobs {place} [-h]")
    assert said.endswith(f"tinyjobs {place}: error: unrecognized arguments: {reason.rpartition('arguments: ')[2]}")


def test_an_app_has_to_be_named(capsys):
    with pytest.raises(SystemExit):
        make_parser().parse_args(["worker"])
    assert "the following arguments are required: --app" in capsys.readouterr().err


@pytest.mark.parametrize("command", list(leaves()), ids=lambda command: command.name)
def test_help_answers_with_examples_that_parse(command, capsys):
    with pytest.raises(SystemExit) as caught:
        make_parser().parse_args([*command.name.split(), "--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert text.isascii()
    examples = [line.strip() for line in text.partition("examples:\n")[2].splitlines() if line.strip()]
    assert examples
    for line in examples:
        program, *arguments = line.split()
        assert program == "tinyjobs"
        assert make_parser().parse_args(arguments).chosen == command.name


def test_no_option_is_added_twice_and_each_explains_itself():
    for command in leaves():
        names = [name for option in command.options for name in option.names]
        assert len(names) == len(set(names))
        assert all(option.help for option in command.options)


def test_the_version(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith("tinyjobs ")


def test_a_reload_needs_a_process_of_its_own(capsys):
    assert main(["worker", "--reload", *APP]) == 2
    assert "works on the command line alone" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("report", "until_empty", "line"),
    [
        (WorkerReport(), True, "Done: 0 jobs ran, 0 failed, 0 wait for later."),
        (WorkerReport(succeeded=1), False, "Stopped: 1 job ran, 0 failed."),
        (
            WorkerReport(succeeded=3, failed=2, retried=1, left_delayed=1),
            True,
            "Done: 5 jobs ran, 2 failed, 1 attempt failed with another to follow, 1 waits for later.",
        ),
    ],
)
def test_the_last_line(report, until_empty, line):
    assert last_line(report, WorkerSettings(until_empty=until_empty)) == line
