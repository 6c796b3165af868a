"""What arguments may be, for type checkers: nothing of this is imported when the package is."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, Union

from detent._formats import Format

Path = Union[str, "os.PathLike[str]"]
FormatLike = Union[str, Format]
Batch = Any
"""An array, batch first; a dict of arrays by input; or a pair of that and labels."""
SampleSource = Union[Iterable[Batch], Callable[[], Iterable[Batch]]]
