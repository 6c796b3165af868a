"""What was found, as data."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from detent._networks import Network


class Result:
    """Results are data."""

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, as numbers, texts, lists and dicts."""
        return {name: _plain(value) for name, value in self.__dict__.items() if _is_data(value)}


def _is_data(value: Any) -> bool:
    return not hasattr(value, "quantize")


def _plain(value: Any) -> Any:
    if isinstance(value, Result):
        return value.to_dict()
    if isinstance(value, (list, tuple)):
        return [_plain(element) for element in value]
    return value


@dataclass(frozen=True)
class Accuracy(Result):
    """How often a classifier is right. samples, correct: their numbers. accuracy: their share. standard_error: of that.
    loss: mean cross entropy."""

    samples: int
    correct: int
    accuracy: float
    standard_error: float
    loss: float

    def __str__(self) -> str:
        return f"{self.accuracy:.4f} +- {self.standard_error:.4f} ({self.correct}/{self.samples})"


@dataclass(frozen=True)
class Sizes(Result):
    """What storing a network takes. weight_values: numbers. weight_bytes: with their scales. bits_per_weight,
    bits_per_activation: on average."""

    weight_values: int
    weight_bytes: int
    bits_per_weight: float
    bits_per_activation: float


@dataclass(frozen=True)
class QuantizeResult(Result):
    """What `Network.quantize` gave: what `detent quantize` prints, as data.

    network: the quantized one. accuracy_before, accuracy_after: None without test samples. sizes_before, sizes_after.
    output_sqnr_db: of the outputs against those in float, in dB. layers: the error of each, the one that the outputs
    suffer most from first. advice: what would help; "" where nothing was found. tried: how much. integer_execution: on how
    many samples integers were compared with fake quantization.
    """

    network: Network
    accuracy_before: Accuracy | None
    accuracy_after: Accuracy | None
    sizes_before: Sizes
    sizes_after: Sizes
    integer_execution: str
    output_sqnr_db: float | None = None
    layers: list[dict[str, Any]] = field(default_factory=list)
    advice: str = ""
    tried: list[dict[str, Any]] = field(default_factory=list)

    def layers_frame(self) -> Any:
        """`layers` as a data frame; needs pandas."""
        import pandas

        return pandas.DataFrame(self.layers)

    def _rows(self) -> list[tuple[str, str, str]]:
        before, after = self.sizes_before, self.sizes_after
        rows = [
            ("weights, bytes", f"{before.weight_bytes}", f"{after.weight_bytes}"),
            ("bits a weight", f"{before.bits_per_weight:.2f}", f"{after.bits_per_weight:.2f}"),
            ("bits an activation", f"{before.bits_per_activation:.2f}", f"{after.bits_per_activation:.2f}"),
        ]
        if self.accuracy_before and self.accuracy_after:
            rows.append(("accuracy", str(self.accuracy_before), str(self.accuracy_after)))
        if self.output_sqnr_db is not None:
            rows.append(("SQNR of the outputs, dB", "", f"{self.output_sqnr_db:.1f}"))
        return rows

    def __str__(self) -> str:
        rows = [("", "float", "quantized"), *self._rows()]
        widths = [max(len(row[i]) for row in rows) for i in range(3)]
        return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)

    def _repr_html_(self) -> str:
        return table_html(("", "float", "quantized"), [tuple(map(escape, row)) for row in self._rows()])


def table_html(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Cells that are escaped already."""
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return "<table><tr>" + "".join(f"<th>{cell}</th>" for cell in head) + f"</tr>{body}</table>"


def inline_svg(drawing: str) -> str:
    """A drawing for use in HTML, which has no XML declaration."""
    return drawing[drawing.index("<svg") :]


def fields_of(result: type[Any]) -> list[str]:
    return [item.name for item in dataclasses.fields(result)]
