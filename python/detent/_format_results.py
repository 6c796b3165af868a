"""What formats make of arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from detent._formats import Format


@dataclass(frozen=True)
class FormatError:
    """What rounding to a format does to an array.

    count: elements. sqnr_db: signal to noise in dB, higher is better. mean_squared_error, max_error: of the elements.
    cosine: of the angle between both as vectors. zero_share: of the results that are 0. saturated_share: of the elements
    that lay beyond the range; None where nothing tells. distinct_values: how many different results there are, 65,537
    where more than 65,536.
    """

    count: int
    sqnr_db: float
    mean_squared_error: float
    max_error: float
    cosine: float
    zero_share: float
    saturated_share: float | None
    distinct_values: int

    def to_dict(self) -> dict[str, Any]:
        """The fields by name."""
        return dict(self.__dict__)


@dataclass(frozen=True, eq=False)
class Encoded:
    """An array as bits, with everything that decoding needs.

    codes: uint8, the codes of all elements in row-major order, packed. scales, zero_points: of the groups, None where the
    format stores none. streams: all parts by name. nbytes: what they take.
    """

    format: Format
    shape: tuple[int, ...]
    packing: str
    streams: dict[str, NDArray[Any]]

    @property
    def codes(self) -> NDArray[np.uint8]:
        return self.streams["codes"]

    @property
    def scales(self) -> NDArray[Any] | None:
        return self.streams.get("scales")

    @property
    def zero_points(self) -> NDArray[Any] | None:
        return self.streams.get("zero_points")

    @property
    def nbytes(self) -> int:
        return sum(stream.nbytes for stream in self.streams.values())

    def decode(self) -> NDArray[np.float32]:
        """The values: those of fake_quantize, to the last bit."""
        return self.format.decode(self)
