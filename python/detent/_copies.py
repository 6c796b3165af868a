"""Objects that never change."""

from __future__ import annotations

TYPE_CHECKING = False  # but for type checkers
if TYPE_CHECKING:
    from typing import Any, Self


class Unchanging:
    """Is its own copy. Says what to do instead where it is not pickled."""

    __slots__ = ()

    _instead_of_pickling = ""

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> Any:
        raise TypeError(f"{type(self).__name__}: is not pickled: {self._instead_of_pickling}")
