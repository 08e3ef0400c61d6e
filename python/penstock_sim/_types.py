"""The types of arguments."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Union

#: A scenario: a mapping, the text of a YAML document, or the path of a file.
Scenario = Union[Mapping[str, Any], str, "os.PathLike[str]", None]

#: A schedule: yields (kind, microbatch), or (kind, microbatch, stage), for one rank of K ranks and M microbatches.
Order = Callable[[int, int, int], Iterable[Union[tuple[str, int], tuple[str, int, int]]]]
