"""Turns arguments of Python functions into arguments of the command line."""

from __future__ import annotations

import os

from ._errors import ScenarioError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ._types import Scenario

# Each value of these flags is given by a flag of its own.
_REPEATED = {"set", "ignore", "output", "vary", "what_if"}


def flags_of(keys: Mapping[str, Any]) -> list[str]:
    """Returns the flags of keyword arguments.

    None gives nothing. A name with a dot is a key of the scenario and takes every other value. For other names,
    True gives a flag without a value, and False gives nothing.
    """
    flags: list[str] = []
    for name, given in keys.items():
        value = _plain(given)
        if value is None:
            continue
        if "." in name:
            flags += ["--set", f"{name}={_text(value)}"]
            continue
        flag = "--" + name.replace("_", "-")
        if name in _REPEATED:
            for one in _repeated(name, value):
                flags += [flag, one]
        elif value is True:
            flags.append(flag)
        elif isinstance(value, (list, tuple, range)):
            flags += [flag, ",".join(_text(one) for one in value)]
        elif value is not False:
            flags += [flag, _text(value)]
    return flags


def input_of(scenario: Scenario) -> tuple[list[str], str]:
    """Returns the argument that names the scenario, and the text of standard input that it refers to."""
    if scenario is None:
        return [], ""
    if isinstance(scenario, os.PathLike):
        return [os.fspath(scenario)], ""
    if callable(scenario):
        raise ScenarioError("a function is no scenario: give it as schedule=..., with pp_size and num_microbatches")
    if not isinstance(scenario, str):
        return ["-"], _json(scenario)
    # A text of YAML has a line end or a colon with a blank; no name of a file that exists has.
    is_text = "\n" in scenario or ": " in scenario or scenario.lstrip().startswith("{")
    return (["-"], scenario) if is_text else ([scenario], "")


class Written:
    """A temporary file that holds a text. Its context gives the name of the file."""

    def __init__(self, text: str, suffix: str) -> None:
        self._text = text
        self._suffix = suffix

    def __enter__(self) -> str:
        import tempfile

        self._file = tempfile.NamedTemporaryFile("w", suffix=self._suffix, encoding="utf-8")
        self._file.write(self._text)
        self._file.flush()
        return self._file.name

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _repeated(name: str, value: Any) -> list[str]:
    """Returns the values of a flag that may be repeated. A dict gives KEY=VALUE for each of its keys."""
    if hasattr(value, "items"):
        text = _values_text if name == "vary" else _text
        return [f"{key}={text(one)}" for key, one in value.items()]
    return [_text(one) for one in value] if isinstance(value, (list, tuple)) else [_text(value)]


def _values_text(values: Any) -> str:
    """Returns the values of one key of a sweep, separated by commas."""
    values = _plain(values)
    return ",".join(_text(one) for one in values) if isinstance(values, (list, tuple, range)) else _text(values)


def _text(value: Any) -> str:
    """Returns a value as YAML, which every flag can read."""
    value = _plain(value)
    if isinstance(value, (bool, list, tuple, range, dict)):
        return _json(list(value) if isinstance(value, range) else value)
    return str(value)


def _plain(value: Any) -> Any:
    """Returns numpy's numbers and arrays as Python's, and every other value as it is."""
    return value.tolist() if hasattr(value, "tolist") else value


def _json(value: Any) -> str:
    import json

    return json.dumps(value, default=_value_of_json)


def _value_of_json(value: Any) -> Any:
    """Returns a value that JSON can state in place of one that it cannot."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, range):
        return list(value)
    raise ScenarioError(f"expected dicts, lists, texts and numbers in a scenario, got {value!r} of {type(value).__name__}")
