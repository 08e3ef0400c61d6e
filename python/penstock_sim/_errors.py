"""The exceptions of the package."""

from __future__ import annotations

from . import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

# FILE:LINE:COLUMN: KEY: message
_PLACE = r"^(?P<file>.+?):(?P<line>\d+):(?P<column>\d+): (?:(?P<key>[\w.\-]+): )?"
_KEY = r"^(?:--set )?(?P<key>[\w\-]+(?:\.[\w\-]+)+): "


class PenstockError(Exception):
    """The base of all errors of this package. Its text says what was expected, what was found and how to fix it."""


class ScenarioError(PenstockError):
    """A wrong scenario, program, argument or shape.

    `key` is the scenario's key, `file` the file and `line` its line, from 1. Each is None if the error has none. The
    file of a scenario that was given as a dict or a text is "-".
    """

    def __init__(self, message: str) -> None:
        import re

        super().__init__(message)
        place = re.match(_PLACE, message)
        key = place or re.match(_KEY, message)
        self.file: str | None = place["file"] if place else None
        self.line: int | None = int(place["line"]) if place else None
        self.key: str | None = key["key"] if key else None


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
