"""Number formats."""

from __future__ import annotations

from detent import _detent
from detent._arguments import checked, natural
from detent._errors import Error

TYPE_CHECKING = False  # but for type checkers
if TYPE_CHECKING:
    from typing import Any

    import numpy as np
    from numpy.typing import NDArray

    from detent._format_results import Encoded, FormatError


def _plain(x: Any) -> Any:
    """A tensor of torch without its gradient, which no array has; anything else as it is."""
    return x.detach() if hasattr(x, "detach") else x


class Format:
    """A number format, and what shares its parameters: `Format("int4", granularity="group", group_size=128)`.

    Names and keys are those of `detent formats` and of its text form: `Format("minifloat_ieee:width=6,exponent_width=3")`
    is `Format("minifloat_ieee", width=6, exponent_width=3)`. Formats are values: compared, hashed, pickled; also
    `Format(other)`.

    Raises Error on unknown names and keys and on values that are not possible.

    >>> detent.Format("fp4_e2m1").values()
    [-6.0, -4.0, -3.0, -2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
    """

    __slots__ = ("_spec", "_text")

    def __init__(self, name: str | Format, **keys: Any) -> None:
        if isinstance(name, Format):
            name = name._text
        if not isinstance(name, str):
            raise TypeError(f"name: got {type(name).__name__}, expected a name such as \"int8\", or a Format")
        self._spec = _detent.FormatSpec(name, **keys)
        self._text: str = self._spec.text()

    @property
    def name(self) -> str:
        """What the number format is called, without keys: `int4` is an `affine` one."""
        return self._spec.name()

    @property
    def keys(self) -> dict[str, Any]:
        """The keys that differ from their defaults."""
        return self._spec.keys()

    @property
    def bits(self) -> float:
        """Bits of one code, scales not counted."""
        return self._spec.bits()

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest of `values()`."""
        values = self.values()
        return values[0], values[-1]

    def values(self) -> list[float]:
        """Every value, ascending; in units of the scale where that comes from the data.

        Raises Error where values depend on more than a scale, and where there are more than 16 bits.
        """
        return self._spec.values()

    def storage_bits(self, shape: tuple[int, ...]) -> int:
        """Bits that an array of this shape takes, with its scales."""
        return self._spec.storage_bits(list(shape))

    @checked
    def fake_quantize(
        self, x: Any, *, out: NDArray[np.float32] | None = None, seed: int = 0
    ) -> NDArray[np.float32]:
        """Each element of `x` rounded to the nearest value of the format, as float32 of the same shape.

        x: float32, float16, bfloat16 or float64 array of any shape. out: where the result goes, float32 of that shape; it
        may be `x`. seed: of formats that round at random. NaN passes through. A contiguous float32 `x` is not copied.

        Raises TypeError where `x` is no array of floats, Error where the format cannot hold the data.

        >>> detent.Format("fixed", width=4, frac_width=1).fake_quantize(numpy.float32([0.3, 9]))
        array([0.5, 3.5], dtype=float32)
        """
        result: NDArray[np.float32] = self._spec.fake_quantize(_plain(x), out, natural("seed", seed))
        return result

    def saturates(self, x: Any) -> NDArray[np.bool_]:
        """Where elements of `x` lie beyond what the format holds: there the clipped gradient is 0."""
        held: NDArray[np.float32] = self._spec.mask(_plain(x))
        beyond: NDArray[np.bool_] = held == 0
        return beyond

    @checked
    def encode(self, x: Any, *, packing: str = "bits", seed: int = 0) -> Encoded:
        """`x` as codes, scales and what else the format stores. packing: "bits", or "base3" of ternary.

        `decode(encode(x))` is `fake_quantize(x)`, signs of zeros included. Raises Error where `x` has NaN and the format
        has no code for it.

        >>> detent.Format("int4").encode(numpy.float32([0.5, -3.5, 7])).decode()
        array([ 0., -4.,  7.], dtype=float32)
        """
        from detent._format_results import Encoded

        x = _plain(x)
        streams = self._spec.encode(x, packing, natural("seed", seed))
        return Encoded(self, tuple(x.shape), packing, streams)

    def decode(self, encoded: Encoded) -> NDArray[np.float32]:
        """The values of what `encode` gave. Raises Error where it is of another format, or damaged."""
        if encoded.format != self:
            raise Error(f"got codes of {encoded.format!r}, expected {self!r}")
        values: NDArray[np.float32] = self._spec.decode(list(encoded.shape), encoded.streams, encoded.packing)
        return values

    @checked
    def error(self, x: Any, *, seed: int = 0) -> FormatError:
        """What `fake_quantize` does to `x`.

        >>> detent.Format("int4").error(numpy.float32([0.5, -3.5, 7])).max_error
        0.5
        """
        from detent._format_results import FormatError

        return FormatError(**self._spec.error(_plain(x), natural("seed", seed)))

    def _repr_svg_(self) -> str:
        """Its values, and the errors that it makes of drawn ones: what `detent formats show --svg` writes."""
        return self._spec.drawing()

    def __repr__(self) -> str:
        return f"detent.Format({self._text!r})"

    def __str__(self) -> str:
        return self._text

    def __eq__(self, other: object) -> bool:
        return self._text == other._text if isinstance(other, Format) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> tuple[Any, ...]:
        return Format, (self._text,)


def format_names() -> list[str]:
    """The names that `Format` knows, those with sizes in them (`int4_g128`) by example.

    >>> "nvfp4" in detent.format_names()
    True
    """
    return _detent.format_names()
