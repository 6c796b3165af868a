"""What a search of formats found."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from detent import _detent
from detent._results import Result, inline_svg, table_html

if TYPE_CHECKING:
    from detent._networks import Network


@dataclass(frozen=True)
class SearchPoint(Result):
    """A network of the front.

    network: ready for integers where its formats are. file: its name in the folder of the search. costs: bytes,
    weight_bits, mac_bits, and latency_ms where that counts. quality: samples, sqnr_db, distortion, and, of samples with
    labels, accuracy, standard_error and correct. formats: by node and operand. improved: by passes that choose better
    weights.
    """

    network: Network
    file: str
    costs: dict[str, Any]
    quality: dict[str, Any]
    formats: dict[str, dict[str, str]]
    improved: bool

    def __str__(self) -> str:
        accuracy = f", accuracy {self.quality['accuracy']:.4f}" if "accuracy" in self.quality else ""
        bits = self.costs["weight_bits"]
        return f"{self.costs['bytes']} bytes, {bits:.3f} bits a weight, {self.quality['sqnr_db']:.2f} dB{accuracy}"


@dataclass(frozen=True)
class SearchResult(Result):
    """What `Network.search` gave: what `detent search` prints and writes as search.json, as data.

    best: the point that is nearest to what was asked for. front: the points that no other beats, by ascending cost.
    objective: what was asked for; is_met: whether the best point is within all bounds. cost, quality: what the front shows.
    reference: the quality of the network in float. strategy, seed. state: why it ended. evaluations: runs of a whole network
    that it took. sensitivities: what the smallest formats do by themselves, of sensitivity_samples: dicts of node, operand,
    format, bits, distortion. residual_pairs: first, second, correlation.
    """

    best: SearchPoint
    front: list[SearchPoint]
    objective: str
    is_met: bool
    cost: str
    quality: str
    reference: dict[str, Any]
    strategy: str
    seed: int
    state: str
    evaluations: float
    sensitivity_samples: int
    sensitivities: list[dict[str, Any]]
    residual_pairs: list[dict[str, Any]]

    @property
    def network(self) -> Network:
        """The best one."""
        return self.best.network

    def to_dict(self) -> dict[str, Any]:
        """As search.json has it: the front as dicts, the best by its file."""
        found = super().to_dict()
        found["best"] = self.best.file
        found["float"] = found.pop("reference")
        return {"version": 1, **found}

    def front_frame(self) -> Any:
        """The front as a data frame, a point a row; needs pandas."""
        import pandas

        return pandas.DataFrame(
            [{"file": point.file, **point.costs, **point.quality, "best": point is self.best} for point in self.front]
        )

    def __str__(self) -> str:
        lines = [f"{'best ' if point is self.best else '     '}{point}" for point in self.front]
        return "\n".join([*lines, f"{self.strategy}: {self.evaluations:.1f} evaluations; {self.state}"])

    def _repr_html_(self) -> str:
        rows = [("best" if point is self.best else "", escape(str(point))) for point in self.front]
        return table_html(("", "front"), rows) + inline_svg(self._repr_svg_())

    def _repr_svg_(self) -> str:
        """Cost and quality of the front."""
        quality = "accuracy" if self.quality == "accuracy" else "sqnr_db"
        cost = {"latency": "latency_ms"}.get(self.cost, self.cost)
        points = [
            {
                "name": point.file,
                "cost": point.costs[cost],
                "value": point.quality[quality],
                "on_front": True,
                "chosen": point is self.best,
            }
            for point in self.front
        ]
        return _detent.front_svg({"cost_name": cost, "value_name": quality, "points": points})


def search_result(found: dict[str, Any], networks: dict[str, Network]) -> SearchResult:
    """Of what `_detent.search` gives."""
    report = dict(found)
    report.pop("version")
    report["reference"] = report.pop("float")
    front = [SearchPoint(network=networks[point["file"]], **point) for point in report.pop("front")]
    best = report.pop("best")
    return SearchResult(best=next(point for point in front if point.file == best), front=front, **report)
