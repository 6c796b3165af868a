"""Samples of a user as the libraries take them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from detent import _detent

if TYPE_CHECKING:
    from detent._types import SampleSource

    _Input = tuple[str, str, list[str]]


_LABELS = ("labels", "label")  # what data sets of Hugging Face call them


def _is_array(value: object) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")


def _is_frame(value: object) -> bool:
    """Of pandas or polars: rows of named columns, or one column."""
    return hasattr(value, "to_numpy")


def _plain(value: Any) -> Any:
    if _is_frame(value):
        return value.to_numpy()
    return value.detach() if hasattr(value, "detach") else value


def frame_inputs(frame: Any, names: list[str]) -> Any:
    """A data frame as a network takes it: a column for each input where they are called so, else all as one array."""
    columns = list(getattr(frame, "columns", ()))
    if not columns or sorted(map(str, columns)) != sorted(names):
        return frame.to_numpy()
    return {name: frame[name].to_numpy().reshape(-1, 1) for name in names}


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


def _are_labels(value: Any, batch: Any) -> bool:
    """Whether they are an integer for each sample of `batch`."""
    if isinstance(value, list):
        return len(value) == len(batch) and all(isinstance(label, int) for label in value)
    is_column = hasattr(value, "shape") and hasattr(value, "dtype") and len(value.shape) == 1
    return is_column and len(value) == len(batch) and "int" in str(value.dtype)


def _is_one_batch(given: Any, inputs: list[_Input]) -> bool:
    """Whether a tuple is all samples at once: the inputs in order, or inputs and labels."""
    if len(inputs) > 1 and _in_order(given, inputs):
        return True
    if len(given) != 2 or isinstance(given[1], (Mapping, tuple)):
        return False
    first, (_, dtype, shape) = given[0], inputs[0]
    if isinstance(first, (Mapping, tuple)):
        return True
    is_full = (_is_frame(first) or _is_array(first)) and len(first.shape) == len(shape)
    return is_full and dtype.startswith(("float", "bfloat")) and _are_labels(given[1], first)


def _in_order(item: Any, inputs: list[_Input]) -> bool:
    """Whether arrays are the inputs by their order. The first array of a language model is all that it needs."""
    has_tokens = any(name == "input_ids" for name, _, _ in inputs)
    return len(item) == len(inputs) and not has_tokens and all(_is_array(part) or _is_frame(part) for part in item)


def _items(given: Any, inputs: list[_Input], source: str) -> Iterator[Any]:
    """What `given` yields: also a function that gives an iterator, and a Dataset of torch."""
    if _is_array(given) or _is_frame(given) or isinstance(given, Mapping):
        return iter([given])
    if isinstance(given, tuple) and _is_one_batch(given, inputs):
        return iter([given])
    if isinstance(given, (str, bytes)):
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


def _only_input(inputs: list[_Input], item: Any, source: str) -> str:
    """The input that an array is for: the only one, or the tokens of a language model."""
    names = [name for name, _, _ in inputs]
    if len(names) > 1 and "input_ids" not in names:
        raise TypeError(
            f"{source}: got {type(item).__name__}, expected a tuple or a dict of the inputs {', '.join(names)}"
        )
    return names[0] if len(names) == 1 else "input_ids"


def _pair(item: Any, inputs: list[_Input], source: str) -> tuple[Any, Any]:
    """Inputs and labels of what is yielded; None where there are no labels."""
    if not isinstance(item, (tuple, list)):
        return item, None
    several = len(inputs) > 1
    if several and _in_order(item, inputs):
        return item, None
    if several and _in_order(item[:-1], inputs):
        return item[:-1], item[-1]
    if not 1 <= len(item) <= 2:
        many = f", several inputs as a dict of {', '.join(name for name, _, _ in inputs)}" if several else ""
        raise TypeError(f"{source}: got {len(item)} parts, expected inputs, or a pair of inputs and labels{many}")
    return item[0], item[1] if len(item) == 2 else None


def _named(item: Any, inputs: list[_Input], source: str) -> Mapping[str, Any]:
    """The arrays of a batch by input."""
    names = [name for name, _, _ in inputs]
    if _is_frame(item):
        item = frame_inputs(item, names)
    if isinstance(item, (tuple, list)) and _in_order(item, inputs):
        return dict(zip(names, item, strict=True))
    return item if isinstance(item, Mapping) else {_only_input(inputs, item, source): item}


def _without_labels(batch: Mapping[str, Any], names: set[str]) -> tuple[Mapping[str, Any], Any]:
    key = next((key for key in _LABELS if key in batch and key not in names), None)
    if key is None:
        return batch, None
    return {name: array for name, array in batch.items() if name != key}, batch[key]


def collect(graph: _detent.NetworkGraph, given: SampleSource, source: str, *, labels: str = "dropped") -> _detent.Samples:
    """Takes all that `given` yields, once. labels: "dropped", "needed", or "kept" where there are any."""
    inputs = graph.inputs()
    known = {name for name, _, _ in inputs}
    samples = _detent.Samples(graph, source)
    for item in _items(given, inputs, source):
        batch, given_labels = _pair(item, inputs, source)
        batch = _named(batch, inputs, source)
        if given_labels is None:
            batch, given_labels = _without_labels(batch, known)
        if labels == "needed" and given_labels is None:
            raise TypeError(f"{source}: got {type(item).__name__}, expected a pair of inputs and labels")
        if any(name not in known for name in batch):
            raise TypeError(
                f"{source}: got the inputs {', '.join(map(str, batch))}, expected "
                f"{', '.join(name for name, _, _ in inputs)}; labels are beside them in a pair, or called labels"
            )
        arrays = [
            _batched(name, batch[name], len(shape), source) if name in batch else None for name, _, shape in inputs
        ]
        samples.add(arrays, None if labels == "dropped" or given_labels is None else _labels(given_labels))
    return samples
