"""What a comparison of formats and methods found."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

from detent import _detent
from detent._results import Result, inline_svg, table_html


@dataclass(frozen=True)
class ComparedNetwork(Result):
    """A row of a comparison: a format of weights and one of activations, by a method.

    obstacle: why there is no such network, None where there is. Of samples with labels: accuracy, standard_error, correct.
    kl_divergence: from the network in float, of classifiers. sqnr_db: of the outputs. weight_bits: a weight, scales counted.
    latency_ms: that the engine takes for a sample. on_front: no other has a smaller distortion in as many bytes. options:
    what `Network.quantize` makes it with.
    """

    weights: str
    activations: str
    method: str
    options: dict[str, Any]
    obstacle: str | None = None
    accuracy: float | None = None
    standard_error: float | None = None
    correct: int | None = None
    samples: int | None = None
    kl_divergence: float | None = None
    sqnr_db: float | None = None
    weight_bytes: int | None = None
    weight_bits: float | None = None
    activation_bits: float | None = None
    latency_ms: float | None = None
    on_front: bool = False

    def to_dict(self) -> dict[str, Any]:
        """As comparison.json has it: what there is, without options."""
        found = {name: value for name, value in self.__dict__.items() if name != "options" and value is not None}
        if self.obstacle is not None:
            found.pop("on_front")
        return found


@dataclass(frozen=True)
class ComparisonResult(Result):
    """What `Network.compare` gave: what `detent compare` prints and writes as comparison.json, as data.

    reference: weight_bytes, samples, latency_ms and accuracy of the network in float. networks: by format, then by method.
    missing: how many there was no time for: `resume=True` goes on.
    """

    reference: dict[str, Any]
    networks: list[ComparedNetwork]
    missing: int
    _text: str
    _pareto: dict[str, Any]

    @property
    def front(self) -> list[ComparedNetwork]:
        """The networks that no other beats, by ascending size."""
        return sorted((row for row in self.networks if row.on_front), key=lambda row: row.weight_bytes or 0)

    def to_dict(self) -> dict[str, Any]:
        """As comparison.json has it, without the commands."""
        return {
            "float": self.reference,
            "networks": [row.to_dict() for row in self.networks],
            "missing": self.missing,
        }

    def frame(self) -> Any:
        """The networks as a data frame, a network a row; needs pandas."""
        import pandas

        return pandas.DataFrame([row.to_dict() for row in self.networks])

    def __str__(self) -> str:
        return self._text.rstrip("\n")

    def _repr_html_(self) -> str:
        shown = ("weights", "activations", "method", "accuracy", "kl_divergence", "sqnr_db", "weight_bytes", "latency_ms")
        head = [name for name in shown if any(getattr(row, name) is not None for row in self.networks)]
        rows = [
            (*(_cell(getattr(row, name)) for name in head), escape(row.obstacle) if row.obstacle else "*" * row.on_front)
            for row in self.networks
        ]
        return table_html((*head, "front"), rows) + inline_svg(self._repr_svg_())

    def _repr_svg_(self) -> str:
        """Bytes and quality of each network, and the front."""
        return _detent.front_svg(self._pareto)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else escape(str(value))


def comparison_result(found: dict[str, Any]) -> ComparisonResult:
    """Of what `_detent.compare` gives."""
    report = found["report"]
    rows = [
        ComparedNetwork(**row, options=options)
        for row, options in zip(report["networks"], found["options"], strict=True)
    ]
    return ComparisonResult(report["float"], rows, report["missing"], found["text"], found["front"])
