"""What a network is made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from html import escape
from typing import TYPE_CHECKING, Any

from detent import _detent
from detent._copies import Unchanging

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Input:
    """An input of a network. shape: numbers, and names of sizes that a run decides; "N" is the batch."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]


class Node(Unchanging):
    """A node of a network.

    name; op: the operator; inputs: names of the values that it reads; shape, dtype: of its first result, for one sample;
    formats: what its operands ("data_in_0", "weight", ...) are rounded to; parameters: shapes by name; attributes.
    """

    __slots__ = ("_graph", "attributes", "dtype", "formats", "inputs", "name", "op", "parameters", "shape")

    _instead_of_pickling = "its fields are ordinary values"

    def __init__(self, graph: _detent.NetworkGraph, found: dict[str, Any]) -> None:
        self._graph = graph
        self.name: str = found["name"]
        self.op: str = found["op"]
        self.inputs: list[str] = found["inputs"]
        self.shape: tuple[int, ...] | None = None if found["shape"] is None else tuple(found["shape"])
        self.dtype: str | None = found["dtype"]
        self.formats: dict[str, str] = found["formats"]
        self.parameters: dict[str, tuple[int, ...]] = {k: tuple(v) for k, v in found["parameters"].items()}
        self.attributes: dict[str, Any] = found["attributes"]

    def parameter(self, name: str = "weight") -> NDArray[Any]:
        """A copy of a parameter. Raises Error where the node has none of that name."""
        value: NDArray[Any] = self._graph.parameter(self.name, name)
        return value

    def __repr__(self) -> str:
        return f"<detent.Node {self.name}: {self.op} {list(self.shape or ())}>"


def _cells(node: Node) -> tuple[str, str, str, str]:
    """A node in a table."""
    formats = ", ".join(f"{operand}: {text.split(':')[0]}" for operand, text in node.formats.items())
    return node.name, node.op, "x".join(map(str, node.shape or ())), formats


class Nodes(Unchanging, Sequence[Node]):
    """The nodes of a network in execution order: by place, by name, or those of an operator."""

    _instead_of_pickling = "the network is saved, and loaded elsewhere"

    def __init__(self, nodes: list[Node]) -> None:
        self._nodes = nodes
        self._by_name = {node.name: node for node in nodes}

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            if key not in self._by_name:
                near = get_close_matches(key, self._by_name, 3)
                raise KeyError(f"{key}; near it: {', '.join(near)}" if near else key)
            return self._by_name[key]
        return Nodes(self._nodes[key]) if isinstance(key, slice) else self._nodes[key]

    def __contains__(self, key: object) -> bool:
        return key in self._by_name if isinstance(key, str) else key in self._nodes

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes)

    def of(self, op: str) -> Nodes:
        """Those with this operator."""
        return Nodes([node for node in self._nodes if node.op == op])

    def __repr__(self) -> str:
        return f"<detent.Nodes: {len(self._nodes)}>"

    def __str__(self) -> str:
        rows = [_cells(node) for node in self._nodes]
        widths = [max((len(row[i]) for row in rows), default=0) for i in range(4)]
        return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)

    def _repr_html_(self) -> str:
        rows = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in _cells(node)) + "</tr>" for node in self._nodes
        )
        return f"<table><tr><th>node</th><th>operator</th><th>shape</th><th>formats</th></tr>{rows}</table>"
