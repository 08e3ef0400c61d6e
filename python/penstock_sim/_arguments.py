"""Turns arguments of Python functions into arguments of the command line."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ._types import Scenario

# Each value of these flags is given by a flag of its own.
_REPEATED = {"set", "ignore", "output", "vary", "what_if"}


def flags_of(keys: Mapping[str, Any]) -> list[str]:
    """Returns the flags of keyword arguments. True gives a flag without a value; None and False give nothing."""
    flags: list[str] = []
    for name, value in keys.items():
        if value is None or value is False:
            continue
        if "." in name:
            flags += ["--set", f"{name}={_text(value)}"]
            continue
        flag = "--" + name.replace("_", "-")
        if value is True:
            flags.append(flag)
        elif name in _REPEATED:
            pairs = value.items() if hasattr(value, "items") else None
            values = [f"{key}={_text(one)}" for key, one in pairs] if pairs is not None else value
            for one in [values] if isinstance(values, str) else values:
                flags += [flag, str(one)]
        elif isinstance(value, (list, tuple, range)):
            flags += [flag, ",".join(_text(one) for one in value)]
        else:
            flags += [flag, _text(value)]
    return flags


def input_of(scenario: Scenario) -> tuple[list[str], str]:
    """Returns the argument that names the scenario, and the text of standard input that it refers to."""
    if scenario is None:
        return [], ""
    if isinstance(scenario, os.PathLike):
        return [os.fspath(scenario)], ""
    if not isinstance(scenario, str):
        import json

        return ["-"], json.dumps(scenario)
    # A text of YAML has a line end or a colon with a blank; no name of a file that exists has.
    is_text = "\n" in scenario or ": " in scenario or scenario.lstrip().startswith("{")
    return (["-"], scenario) if is_text else ([scenario], "")


def _text(value: Any) -> str:
    if isinstance(value, (list, tuple, dict)):
        import json

        return json.dumps(value)
    return str(value)
