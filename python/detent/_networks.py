"""Networks, and what is done with them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Union

from detent import _detent
from detent._formats import Format
from detent._results import Accuracy, QuantizeResult, Sizes
from detent._samples import SampleSource, collect

if TYPE_CHECKING:
    from numpy.typing import NDArray

Path = Union[str, "os.PathLike[str]"]
FormatLike = Union[str, Format]

_MOST_THREADS = 4096


@dataclass(frozen=True)
class Input:
    """An input of a network. shape: numbers, and names of sizes that a run decides; "N" is the batch."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]


class Node:
    """A node of a network.

    name; op: the operator; inputs: names of the values that it reads; shape, dtype: of its first result, for one sample;
    formats: what its operands ("data_in_0", "weight", ...) are rounded to; parameters: shapes by name; attributes.
    """

    __slots__ = ("_graph", "attributes", "dtype", "formats", "inputs", "name", "op", "parameters", "shape")

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


class Nodes(Sequence[Node]):
    """The nodes of a network in execution order: by place, by name, or those of an operator."""

    def __init__(self, nodes: list[Node]) -> None:
        self._nodes = nodes
        self._by_name = {node.name: node for node in nodes}

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return self._by_name[key]
        return Nodes(self._nodes[key]) if isinstance(key, slice) else self._nodes[key]

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes)

    def of(self, op: str) -> Nodes:
        """Those with this operator."""
        return Nodes([node for node in self._nodes if node.op == op])

    def __repr__(self) -> str:
        return f"<detent.Nodes: {len(self._nodes)}>"

    def _repr_html_(self) -> str:
        rows = "".join(
            "<tr>"
            + "".join(
                f"<td>{escape(cell)}</td>"
                for cell in (
                    node.name,
                    node.op,
                    "x".join(map(str, node.shape or ())),
                    ", ".join(f"{operand}: {text.split(':')[0]}" for operand, text in node.formats.items()),
                )
            )
            + "</tr>"
            for node in self._nodes
        )
        return f"<table><tr><th>node</th><th>operator</th><th>shape</th><th>formats</th></tr>{rows}</table>"


class Session:
    """A network that is ready to run, from several threads at once. threads: that one run uses; None: all there are.

    >>> session = detent.Session(net, threads=1)
    >>> logits = session.run({"x": images})["logits"]
    """

    __slots__ = ("_session",)

    def __init__(self, net: Network, *, threads: int | None = None) -> None:
        if threads is not None and not 1 <= threads <= _MOST_THREADS:
            raise ValueError(f"threads: got {threads}, expected 1 to {_MOST_THREADS}")
        self._session = _detent.GraphSession(net._graph, threads or _MOST_THREADS)

    def run(self, inputs: Mapping[str, Any] | Any, *, out: dict[str, Any] | None = None) -> dict[str, NDArray[Any]]:
        """The outputs by name. inputs: arrays by name, or the array of the only one; sizes may differ from run to run.

        out: contiguous arrays that outputs are written to. Contiguous arrays of the input's dtype are not copied; floats
        of another width are, and integers as wider ones.

        Raises TypeError where something is no such array, Error where a shape does not fit.
        """
        result: dict[str, NDArray[Any]] = self._session.run(inputs, out)
        return result


class Network:
    """A network in float or quantized: `detent.load`, `detent.from_torch` and `Network.quantize` make them.

    Networks do not change: what changes one gives another. From several threads at once.
    """

    __slots__ = ("_graph", "_session")

    def __init__(self, graph: _detent.NetworkGraph) -> None:
        self._graph = graph
        self._session: Session | None = None

    @property
    def name(self) -> str:
        """What the file calls it."""
        return self._graph.name()

    @property
    def inputs(self) -> list[Input]:
        """In the order in which it takes them."""
        return [
            Input(name, dtype, tuple(int(size) if size.isdigit() else size for size in shape))
            for name, dtype, shape in self._graph.inputs()
        ]

    @property
    def outputs(self) -> list[str]:
        """Names of what `run` gives."""
        return self._graph.output_names()

    @property
    def nodes(self) -> Nodes:
        """The nodes in execution order, shapes for one sample."""
        return Nodes([Node(self._graph, found) for found in self._graph.nodes()])

    @property
    def sizes(self) -> Sizes:
        """What storing it takes."""
        return Sizes(**self._graph.sizes())

    def run(self, inputs: Mapping[str, Any] | Any, *, out: dict[str, Any] | None = None) -> dict[str, NDArray[Any]]:
        """The outputs by name, on all threads: see `Session.run`.

        >>> net.run({"x": numpy.zeros((1, 3, 224, 224), numpy.float32)})["logits"].shape
        (1, 1000)
        """
        if self._session is None:
            self._session = Session(self)
        return self._session.run(inputs, out=out)

    def quantize(
        self,
        calibration: SampleSource,
        *,
        test: SampleSource | None = None,
        weights: FormatLike | None = None,
        activations: FormatLike | None = None,
        elementwise: str | None = None,
        formats: Mapping[str, str] | str | None = None,
        bits: Mapping[str, int | str] | str | None = None,
        symmetric_activations: bool | None = None,
        weight_granularity: str | None = None,
        weight_group_size: int | None = None,
        weight_calibrator: str | None = None,
        calibrator: str | None = None,
        percentile: float | None = None,
        num_sigma: float | None = None,
        scale_form: str | None = None,
        num_samples: int | None = None,
        first_last_layers: str | None = None,
        keep_float: Sequence[str] | None = None,
        requantization: str | None = None,
        prepare: Sequence[str] | None = None,
        improve: Sequence[str] | None = None,
        seed: int = 0,
        batch_size: int = 128,
        num_workers: int = 0,
        analyze: bool = True,
    ) -> QuantizeResult:
        options = {
            "weights": weights,
            "activations": activations,
            "elementwise": elementwise,
            "formats": formats,
            "bits": bits,
            "symmetric_activations": symmetric_activations,
            "weight_granularity": weight_granularity,
            "weight_group_size": weight_group_size,
            "weight_calibrator": weight_calibrator,
            "calibrator": calibrator,
            "percentile": percentile,
            "num_sigma": num_sigma,
            "scale_form": scale_form,
            "num_samples": num_samples,
            "first_last_layers": first_last_layers,
            "keep_float": None if keep_float is None else list(keep_float),
            "requantization": requantization,
        }
        wish = {
            "options": {name: _option(value) for name, value in options.items() if value is not None},
            "prepare": _names("prepare", prepare),
            "improve": _names("improve", improve),
            "output": None,
        }
        tested = None if test is None else collect(self._graph, test, "test", labelled=True)
        samples = collect(self._graph, calibration, "calibration")
        found: dict[str, Any] = self._graph.quantize(
            samples, tested, wish, seed, batch_size, num_workers, analyze
        )
        network = Network(found.pop("network"))
        for name, kind in (
            ("accuracy_before", Accuracy),
            ("accuracy_after", Accuracy),
            ("sizes_before", Sizes),
            ("sizes_after", Sizes),
        ):
            found[name] = None if found[name] is None else kind(**found[name])
        return QuantizeResult(network=network, **found)

    def test(self, samples: SampleSource, *, batch_size: int = 128, num_workers: int = 0) -> Accuracy:
        """Accuracy and loss over pairs of inputs and labels, such as a DataLoader yields.

        labels: integers from 0, one a sample. num_workers: threads that load ahead of the network. Raises Error on labels
        that the network has no output for.

        >>> print(net.test(loader))
        0.6300 +- 0.0483 (63/100)
        """
        collected = collect(self._graph, samples, "samples", labelled=True)
        return Accuracy(**self._graph.test(collected, batch_size, num_workers))

    def save(self, path: Path, *, packed: bool = True, overwrite: bool = False) -> list[str]:
        """Writes a graph (.mz), which `load`, the command and the C library read.

        packed: quantized weights as integers, which a training cannot refine any more. Returns a line for each quantized
        weight that stays float32. Raises Error where the file exists, unless `overwrite`.
        """
        return self._graph.save(os.fspath(path), packed, overwrite)

    def export(
        self,
        path: Path,
        *,
        style: str | None = None,
        opset: int | None = None,
        unsigned_weights: bool = False,
        overwrite: bool = False,
    ) -> None:
        """Writes an ONNX model (.onnx).

        style: "qdq" (usual of quantized networks), "qoperator", "matmulnbits", "qonnx", or "float" (usual of others).
        opset: 13 to 25. unsigned_weights: 8-bit weights as uint8, for processors without VNNI. Raises Error where the
        file exists, unless `overwrite`, and where the style cannot hold the formats.
        """
        if style is None:
            style = "qdq" if self.is_quantized else "float"
        self._graph.export(os.fspath(path), style, opset, unsigned_weights, overwrite)

    @property
    def is_quantized(self) -> bool:
        """Whether any operand is rounded to a format."""
        return any(found["formats"] for found in self._graph.nodes())

    def __repr__(self) -> str:
        inputs = ", ".join(f"{i.name} {i.dtype} {list(i.shape)}" for i in self.inputs)
        return f"<detent.Network {self.name}: {inputs} -> {', '.join(self.outputs)}>"

    def _repr_html_(self) -> str:
        sizes = self.sizes
        return (
            f"<p><b>{escape(self.name)}</b>: {sizes.weight_values} weights in {sizes.weight_bytes} bytes</p>"
            + self.nodes._repr_html_()
        )


def _option(value: Any) -> Any:
    if isinstance(value, Format):
        return str(value)
    return {name: _option(entry) for name, entry in value.items()} if isinstance(value, Mapping) else value


def _names(option: str, names: Sequence[str] | None) -> list[str] | None:
    if isinstance(names, str):
        raise TypeError(f"{option}: got str, expected a list of names of passes")
    return None if names is None else list(names)


def _described_quantize() -> str:
    lines = [
        "The network quantized for execution in integers: what `detent quantize` does.",
        "",
        "calibration: batches of inputs, batch first: arrays, or dicts of arrays by input, or pairs of these and labels,",
        "such as a DataLoader yields; also one array, or a function that gives an iterator. All are taken, once, and kept",
        "in a temporary file beyond 32 MiB, so that memory does not grow with them. For the same samples in the same order",
        "the network is that of the command, to the last bit, however they are cut into batches.",
        "test: pairs of inputs and labels that accuracy is measured on, before and after.",
        "",
        "What is not given, or None, is as the command has it:",
        "",
    ]
    for described in _detent.quantize_options():
        lines.append(f"{described['name']}: {described['help']}; {described['type']} (default {described['default']})")
    lines += [
        f"prepare: passes before (default {', '.join(_detent.default_prepare())})",
        "improve: passes after, for example [\"gptq\", \"bias_correction\"] (default bias_correction where weights or",
        "activations have fewer than 8 bits)",
        "seed: of the order in which samples are taken. batch_size: samples a batch. num_workers: threads that load ahead",
        "analyze: False leaves out what each layer loses, what would help, and the comparison with integer execution:",
        "the same network in less time",
        "",
        "Raises TypeError on what is no array of the input's kind, Error on options and samples that do not fit; what the",
        "iterable raises comes through. Ctrl-C ends it.",
        "",
        ">>> result = net.quantize(loader, test=test_loader, weights=\"int4\", improve=[\"gptq\"])",
        ">>> print(result)",
        ">>> result.network.export(\"int4.onnx\")",
    ]
    return "\n".join(lines)


Network.quantize.__doc__ = _described_quantize()


def load(path: Path, *, shapes: Mapping[str, Sequence[int]] | None = None) -> Network:
    """The network in a file: an ONNX model, a graph of Detent (.mz), or the folder of one.

    shapes: of inputs whose sizes the network leaves open, by name: they are fixed then, but for the batch. Raises Error
    where the file holds no network.

    >>> net = detent.load("model.onnx")
    """
    return Network(_detent.load(os.fspath(path), {name: list(shape) for name, shape in (shapes or {}).items()}))


def quantize(net: Network, calibration: SampleSource, **options: Any) -> QuantizeResult:
    return net.quantize(calibration, **options)


quantize.__doc__ = f"`net.quantize(calibration, ...)`.\n\n{Network.quantize.__doc__}"


def set_num_threads(count: int) -> None:
    """How many threads all work of the process uses, of which no more are made than there are processors."""
    _detent.set_num_threads(count)


def num_threads() -> int:
    """How many threads work uses: one a processor, unless `set_num_threads` said otherwise."""
    return _detent.num_threads()
