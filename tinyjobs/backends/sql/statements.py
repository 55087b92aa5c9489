"""Named SQL statements, loaded from a store's `sql/` folder: one file a statement, named for the verb it serves.

Files use `%s` for a parameter and `%%` for a percent sign, as Django's cursors and psycopg do; the form with `?` is
made here once. What is templated is never a caller's value: `{prefix}`; `{tables}`, the prefix behind the schema, where
the store has one; that schema as a name, `{home}`, and as a text, `{schema}`; and `{columns}` or `{listing}`, the job's
columns in the order that `rows` reads them, so that no file can drift from it. `{part:name}` stands for the file
`sql/parts/name`, which several statements share. Lines that begin with `--` are comments.
"""

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from tinyjobs.backends.sql.rows import JOB_COLUMNS, LARGE_COLUMNS
from tinyjobs.core.errors import ConfigurationError

DEFAULT_PREFIX = "tinyjobs"
_PREFIX = re.compile(r"[a-z_][a-z0-9_]{0,39}")
_PART = re.compile(r"\{part:(\w+)\}")
_FILLED = re.compile(r"\{(prefix|home|tables|schema|columns|listing)\}")
_PLACEHOLDER = re.compile(r"%s|%%")


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement in both parameter styles."""

    name: str
    format: str
    qmark: str


class Statements:
    """The statements of one store under one prefix: `statements["claim"]`.

    Without a `schema` the tables are found by whatever search path a connection has.
    """

    def __init__(self, package: str, prefix: str, schema: str | None = None) -> None:
        self.prefix = check_prefix(prefix)
        self._package = package
        self.place_in(schema)

    def place_in(self, schema: str | None) -> None:
        """Name the tables with this schema from here on."""
        package = self._package
        self._statements = {
            name: make_statement(name, _fill(_assemble(text, package), self.prefix, schema))
            for name, text in _texts(package, "sql").items()
        }
        self.schema = [
            make_statement(f"schema {number}", _fill(text, self.prefix, schema))
            for number, script in sorted(_texts(package, "schema").items())
            for text in _split(script)
        ]

    def __getitem__(self, name: str) -> Statement:
        return self._statements[name]

    def names(self) -> list[str]:
        """Every name there is."""
        return sorted(self._statements)


def make_statement(name: str, text: str) -> Statement:
    """A statement from its `%s` form."""
    qmark = _PLACEHOLDER.sub(lambda found: "?" if found.group() == "%s" else "%", text)
    return Statement(name, text, qmark)


def check_prefix(prefix: object) -> str:
    """A table prefix: lower-case letters, digits and underscores, 40 characters at most, no digit first."""
    if not isinstance(prefix, str) or not _PREFIX.fullmatch(prefix):
        raise ConfigurationError(
            f"prefix: {prefix!r} cannot name tables. Use up to 40 lower-case letters, digits and underscores, "
            f"beginning with a letter."
        )
    return prefix


@cache
def _texts(package: str, folder: str) -> dict[str, str]:
    found: dict[str, str] = {}
    place = files(package).joinpath(*folder.split("/"))
    if not place.is_dir():
        return found
    for entry in place.iterdir():
        if entry.name.endswith(".sql"):
            lines = entry.read_text(encoding="utf-8").splitlines()
            kept = [line for line in lines if not line.lstrip().startswith("--")]
            found[entry.name.removesuffix(".sql")] = "\n".join(kept).strip()
    return found


def _assemble(text: str, package: str) -> str:
    return _PART.sub(lambda found: _assemble(_texts(package, "sql/parts")[found[1]], package), text)


def _fill(text: str, prefix: str, schema: str | None) -> str:
    # A percent sign is doubled, since what drivers read is the form with parameters.
    name = None if schema is None else schema.replace("%", "%%")
    home = "" if name is None else '"' + name.replace('"', '""') + '"'
    listing = (f"NULL AS {column}" if column in LARGE_COLUMNS else column for column in JOB_COLUMNS)
    values = {
        "prefix": prefix,
        "home": home,
        "tables": f"{home}.{prefix}" if home else prefix,
        "schema": "current_schema()" if name is None else "'" + name.replace("'", "''") + "'",
        "columns": ", ".join(JOB_COLUMNS),
        "listing": ", ".join(listing),
    }
    # In one go: a schema may be named like a placeholder.
    return _FILLED.sub(lambda found: values[found[1]], text)


def _split(script: str) -> list[str]:
    return [part.strip() for part in re.split(r";\s*\n", script + "\n") if part.strip()]
