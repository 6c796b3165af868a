"""Samples of a user as the libraries take them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from detent import _detent

if TYPE_CHECKING:
    from detent._types import SampleSource


def _is_array(value: object) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")


def _plain(value: Any) -> Any:
    return value.detach() if hasattr(value, "detach") else value


def _labels(labels: Any) -> Any:
    labels = _plain(labels)
    if _is_array(labels) and len(labels.shape) == 0:
        return labels.reshape(1)
    if isinstance(labels, (int, list, tuple)):
        import numpy

        try:
            return numpy.asarray([labels] if isinstance(labels, int) else labels, dtype=numpy.int64)
        except ValueError as error:
            raise TypeError(f"labels: {error}: expected integers from 0") from None
    return labels


def _batched(name: str, array: Any, rank: int, source: str) -> Any:
    """With the dimension of the batch, where the array is one sample."""
    array = _plain(array)
    if not _is_array(array):
        raise TypeError(f"{source}, input {name}: got {type(array).__name__}, expected an array")
    if len(array.shape) == rank - 1:
        return array[None]
    if len(array.shape) != rank:
        raise TypeError(
            f"{source}, input {name}: got an array of {len(array.shape)} dimensions, expected {rank}, or {rank - 1} of "
            "one sample"
        )
    return array


def _items(given: Any, source: str) -> Iterator[Any]:
    """What `given` yields: also a function that gives an iterator, and a Dataset of torch."""
    if _is_array(given):
        return iter([given])
    if isinstance(given, (str, bytes, Mapping)):
        raise TypeError(f"{source}: got {type(given).__name__}, expected an iterable of arrays or dicts of arrays")
    if hasattr(given, "__iter__"):
        return iter(given)
    if hasattr(given, "__getitem__") and hasattr(given, "__len__"):
        return (given[i] for i in range(len(given)))
    if not callable(given):
        raise TypeError(f"{source}: got {type(given).__name__}, expected an iterable of arrays or dicts of arrays")
    made = given()
    if not hasattr(made, "__iter__"):
        raise TypeError(f"{source}: the function gave {type(made).__name__}, expected an iterator")
    return iter(made)


def _only_input(inputs: list[tuple[str, str, list[str]]], item: Any, source: str) -> str:
    """The input that an array is for: the only one, or the tokens of a language model."""
    names = [name for name, _, _ in inputs]
    if len(names) > 1 and "input_ids" not in names:
        raise TypeError(f"{source}: got {type(item).__name__}, expected a dict of the inputs {', '.join(names)}")
    return names[0] if len(names) == 1 else "input_ids"


def collect(graph: _detent.NetworkGraph, given: SampleSource, source: str, *, labels: str = "dropped") -> _detent.Samples:
    """Takes all that `given` yields, once. labels: "dropped", "needed", or "kept" where there are any."""
    inputs = graph.inputs()
    samples = _detent.Samples(graph, source)
    for item in _items(given, source):
        given_labels = None
        if isinstance(item, (tuple, list)):
            if not 1 <= len(item) <= 2:
                many = f", several inputs as a dict of {', '.join(name for name, _, _ in inputs)}" if inputs[1:] else ""
                raise TypeError(
                    f"{source}: got {len(item)} parts, expected inputs, or a pair of inputs and labels{many}"
                )
            given_labels = item[1] if len(item) == 2 else None
            item = item[0]
        if labels == "needed" and given_labels is None:
            raise TypeError(f"{source}: got {type(item).__name__}, expected a pair of inputs and labels")
        if not isinstance(item, Mapping):
            item = {_only_input(inputs, item, source): item}
        unknown = [name for name in item if name not in {name for name, _, _ in inputs}]
        if unknown:
            known = ", ".join(name for name, _, _ in inputs)
            raise TypeError(
                f"{source}: got the inputs {', '.join(map(str, item))}, expected {known}; labels are beside them in a pair"
            )
        arrays = [
            _batched(name, item[name], len(shape), source) if name in item else None for name, _, shape in inputs
        ]
        samples.add(arrays, None if labels == "dropped" or given_labels is None else _labels(given_labels))
    return samples
