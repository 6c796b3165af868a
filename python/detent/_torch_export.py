"""Networks of PyTorch, by its own exporter."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from detent import _detent
from detent._arguments import checked, checked_argument, is_listing
from detent._errors import Error
from detent._networks import Network


def _named_tensors(results: Any) -> list[tuple[str, Any]]:
    """The tensors that a module returned, in the exporter's order, by name: the keys of dicts, the fields of dataclasses,
    else output, output_1, ... Other things are left out.
    """
    import dataclasses

    import torch

    found: list[tuple[str | None, Any]] = []

    def visit(value: Any, key: str | None) -> None:
        if isinstance(value, torch.Tensor):
            found.append((key, value))
        elif isinstance(value, Mapping):
            for inner, part in value.items():
                visit(part, str(inner))
        elif isinstance(value, (tuple, list)):
            for i, part in enumerate(value):
                visit(part, key if key is None or i == 0 else f"{key}_{i}")
        elif dataclasses.is_dataclass(value):
            for field in dataclasses.fields(value):
                visit(getattr(value, field.name), field.name)

    visit(results, None)
    return [(key or (f"output_{i}" if i else "output"), tensor) for i, (key, tensor) in enumerate(found)]


def _returns_tensors(results: Any) -> bool:
    """Whether it is what the exporter takes as it is."""
    import torch

    if isinstance(results, (tuple, list)):
        return all(_returns_tensors(part) for part in results)
    if type(results) is dict:
        return all(_returns_tensors(part) for part in results.values())
    return results is None or isinstance(results, torch.Tensor)


def _with_tensors_alone(called: Any) -> Any:
    """The module with its tensors as results, and nothing else."""
    import torch

    class Tensors(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = called

        def forward(self, *values: Any) -> Any:
            return tuple(tensor for _, tensor in _named_tensors(self.module(*values)))

    return Tensors()


def _call_of(module: Any, example: Any) -> tuple[Any, list[str], tuple[Any, ...]]:
    """A module that takes the arguments by position, their names, and the arguments."""
    import inspect

    import torch

    try:
        parameters: Mapping[str, inspect.Parameter] = inspect.signature(module.forward).parameters
    except ValueError:  # of a module that was traced
        parameters = {}
    kinds = inspect.Parameter
    by_place = [name for name, p in parameters.items() if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
    # The exporter gives these by place, and where there are **others, None for all that is not given.
    keywords = any(p.kind in (kinds.KEYWORD_ONLY, kinds.VAR_KEYWORD) for p in parameters.values())

    class ByName(torch.nn.Module):
        """Parameters that are not given keep their defaults."""

        def __init__(self, names: list[str]) -> None:
            super().__init__()
            self.module = module
            self.names = names

        def forward(self, *values: Any) -> Any:
            return self.module(**dict(zip(self.names, values)))

    def by_name(names: list[str]) -> Any:
        return module if names == by_place[: len(names)] and not keywords else ByName(names)

    if not isinstance(example, Mapping):
        arguments = tuple(example) if isinstance(example, (tuple, list)) else (example,)
        rest = next((name for name, p in parameters.items() if p.kind == kinds.VAR_POSITIONAL), "input")
        more = [f"{rest}_{i}" for i in range(len(arguments) - len(by_place))]
        names = [*by_place, *more][: len(arguments)]
        return (module if more else by_name(names)), names, arguments
    takes_any = any(p.kind == kinds.VAR_KEYWORD for p in parameters.values())
    unknown = [] if takes_any else [str(name) for name in example if name not in parameters]
    if unknown:
        raise TypeError(f"example: got {', '.join(unknown)}, expected parameters of forward: {', '.join(parameters)}")
    names = sorted(example, key=list(parameters).index) if not takes_any else list(example)
    return by_name(names), names, tuple(example[name] for name in names)


def _check_example(module: Any, arguments: tuple[Any, ...]) -> None:
    import torch

    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"module: got {type(module).__name__}, expected a torch.nn.Module")
    for argument in arguments:
        if not isinstance(argument, torch.Tensor):
            raise TypeError(
                f"example: got {type(argument).__name__}, expected tensors, or a dict of those parameters that are tensors"
            )


def _write(called: Any, arguments: tuple[Any, ...], path: str, **options: Any) -> None:
    import inspect

    import torch

    if "dynamo" in inspect.signature(torch.onnx.export).parameters:
        options["dynamo"] = False
    try:
        torch.onnx.export(called, arguments, path, **options)
    except Exception as error:
        reason = str(error).split("[Caused by")[0].strip()
        raise Error(
            f"module: torch.onnx.export cannot write it: {reason}: torch.onnx.export(..., dynamo=True) may, for detent.load"
        ) from error


def _open_axes(
    shaped: Sequence[tuple[str, Any]], is_batch_open: bool, wanted: Mapping[str, Mapping[int, str] | Sequence[int]]
) -> dict[str, dict[int, str]]:
    """Names of the sizes that stay open, of inputs and outputs."""
    if not isinstance(wanted, Mapping):
        raise TypeError(f"dynamic_axes: got {type(wanted).__name__}, expected a dict of axes by input")
    ranks = {name: tensor.dim() for name, tensor in shaped}
    found = {name: {0: "N"} for name, rank in ranks.items() if rank and is_batch_open}
    for name, axes in wanted.items():
        if name not in ranks:
            raise Error(f'dynamic_axes: unknown input or output "{name}" (known: {", ".join(ranks)})', key="dynamic_axes")
        if not is_listing(axes):
            raise TypeError(f"dynamic_axes, {name}: got {type(axes).__name__}, expected axes, or their names by axis")
        names = axes if isinstance(axes, Mapping) else {axis: f"{name}_{axis}" for axis in axes}
        for axis, size in names.items():
            checked_argument(f"dynamic_axes, {name}", axis, "int")
            checked_argument(f"dynamic_axes, {name}, {axis}", size, "str")
            if not -ranks[name] <= axis < ranks[name]:
                raise Error(
                    f"dynamic_axes: {name}: got axis {axis}, expected one of an array of {ranks[name]} dimensions",
                    key="dynamic_axes",
                )
            found.setdefault(name, {})[int(axis) % ranks[name]] = size
    return found


@contextlib.contextmanager
def _evaluated(module: Any, called: Any) -> Iterator[None]:
    """In evaluation mode, of operators that exporters know."""
    import torch

    modes = [(part, part.training) for part in module.modules()]
    fast_attention = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    called.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast_attention)
        for part, mode in modes:
            part.training = mode


@checked
def from_torch(
    module: Any,
    example: Any,
    *,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    dynamic_batch: bool = True,
    dynamic_axes: Mapping[str, Mapping[int, str] | Sequence[int]] | None = None,
    opset: int = 17,
    keep_formats: bool = True,
) -> Network:
    """The network of a torch.nn.Module, through `torch.onnx.export`.

    example: inputs as `module` takes them, batch first: a tensor, a tuple of them, or a dict by parameter name.
    input_names, output_names: what they are called; usual are the names of the parameters of `forward`, and the keys of
    the dict that it returns, or output, output_1, ... dynamic_batch: batches of any size; else that of the example.
    dynamic_axes: further sizes that stay open, as `torch.onnx.export` takes them: {"x": {2: "height", 3: "width"}}, or
    {"x": [2, 3]}. opset: of the model in between. keep_formats: what `detent.torch` rounds is quantized in the network, with the scales that were
    learned; False: weights are float32 numbers, rounded, for `Network.quantize` to quantize all anew.

    The module is exported in evaluation mode; each part is left in the mode it was in. Needs the packages torch and onnx.
    Raises Error where this exporter refuses a module: `torch.onnx.export(..., dynamo=True)` may write it for `detent.load`.

    >>> net = detent.from_torch(torchvision.models.resnet18(), torch.zeros(1, 3, 224, 224))
    """
    import os
    import sys
    import tempfile

    import torch

    module = getattr(module, "_orig_mod", module)  # of torch.compile
    if isinstance(module, torch.nn.DataParallel):
        module = module.module
    _check_example(module, ())
    called, usual_names, arguments = _call_of(module, example)
    _check_example(module, arguments)
    names = list(input_names) if input_names is not None else usual_names
    if len(names) != len(arguments):
        raise TypeError(f"input_names: got {len(names)}, expected {len(arguments)}")
    rounding = sys.modules.get("detent.torch")
    formats = contextlib.nullcontext() if rounding is None or keep_formats else rounding._values_alone()
    with _evaluated(module, called), formats, tempfile.TemporaryDirectory(prefix="detent-") as folder:
        results = called(*arguments)
        tensors = _named_tensors(results)
        outputs = list(output_names or [name for name, _ in tensors])
        if len(outputs) != len(tensors):
            raise TypeError(f"output_names: got {len(outputs)}, expected {len(tensors)}")
        shaped = [*zip(names, arguments), *zip(outputs, [tensor for _, tensor in tensors])]
        path = os.path.join(folder, f"{type(module).__name__}.onnx")
        _write(
            called if _returns_tensors(results) else _with_tensors_alone(called),
            arguments,
            path,
            input_names=names,
            output_names=outputs,
            dynamic_axes=_open_axes(shaped, dynamic_batch, dynamic_axes or {}),
            opset_version=opset,
        )
        try:
            return Network(_detent.load(path, {}, "", None, type(module).__name__))
        except Error as error:
            text = str(error).replace(path, f"module {type(module).__name__}")
            if dynamic_batch and len({tuple(x.shape[:1]) for x in arguments}) > 1:
                text += ": inputs that do not all begin with the batch need dynamic_batch=False"
            raise Error(text, node=error.node, key=error.key, got=error.got, allowed=error.allowed) from None
