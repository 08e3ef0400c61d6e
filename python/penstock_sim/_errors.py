"""The exceptions of the package."""

from __future__ import annotations

from . import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

# FILE:LINE:COLUMN: KEY: message, and tables have no column
_PLACE = r"(?P<file>.+?):(?P<line>\d+):(?:(?P<column>\d+):)? (?:(?P<key>[\w.\-]+): )?"
_SET_KEY = r"(?:--set|--vary) (?P<key>[\w.\-]+): "
_KEY = r"(?P<key>(?:model|cluster|host|parallel|schedule|partition|training)(?:\.[\w\-]+)*): "
_FILE = r"(?P<file>[^\s:]*[./][^\s:]*): "


class PenstockError(Exception):
    """The base of all errors of this package. Its text says what was expected, what was found and how to fix it."""


class ScenarioError(PenstockError):
    """A wrong scenario, program, argument or shape.

    `key` is the scenario's key, `file` the file and `line` its line, from 1. Each is None if the error has none. The
    file of a scenario that was given as a dict or a text is "-", and that of `Program.from_rows` is "rows".
    """

    def __init__(self, message: str) -> None:
        import re

        super().__init__(message)
        found: dict[str, str | None] = {}
        for form in (_PLACE, _SET_KEY, _KEY, _FILE):
            if match := re.match(form, message):
                found = match.groupdict()
                break
        line = found.get("line")
        self.file: str | None = found.get("file")
        self.line: int | None = int(line) if line else None
        self.key: str | None = found.get("key")


class Hang(PenstockError):
    """A program that can hang, that is not valid, or whose messages cross.

    `cycle` has one text for each wait of a shortest cycle of waits. It is empty if no ranks wait in a cycle.
    """

    def __init__(self, message: str, cycle: list[str]) -> None:
        super().__init__(message)
        self.cycle = cycle


class RunError(PenstockError):
    """A command that failed for another reason: a process, a device or a part that is not there."""


def raise_failure(failure: _core.Failure) -> NoReturn:
    """Raises the exception of an error that the compiled part returned."""
    raise_for(failure.kind, failure.message, failure.cycle)


def raise_for(kind: int, message: str, cycle: list[str]) -> NoReturn:
    """Raises the exception of a kind of error: 0 bad input, 1 a failed check, otherwise a failed run."""
    if kind == 0:
        raise ScenarioError(message)
    if kind == 1:
        raise Hang(message, cycle)
    raise RunError(message)
