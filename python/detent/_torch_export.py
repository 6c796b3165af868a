"""Networks of PyTorch, by its own exporter."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from detent._arguments import checked, checked_argument, is_listing
from detent._errors import Error
from detent._loading import of_model
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
    # The exporter makes inputs of numbers that are defaults.
    numbers = {name for name in by_place if isinstance(parameters[name].default, (bool, int, float, complex))}

    class ByName(torch.nn.Module):
        """Parameters that are not given keep their defaults."""

        def __init__(self, names: list[str]) -> None:
            super().__init__()
            self.module = module
            self.names = names

        def forward(self, *values: Any) -> Any:
            return self.module(**dict(zip(self.names, values)))

    def by_name(names: list[str]) -> Any:
        are_first = names == by_place[: len(names)] and not numbers.intersection(by_place[len(names) :])
        return module if are_first and not keywords else ByName(names)

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


def _tensors(module: Any, example: Any) -> Any:
    """The example, with tensors for arrays of numpy."""
    import torch

    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"module: got {type(module).__name__}, expected a torch.nn.Module")

    def tensor(argument: Any) -> Any:
        if type(argument).__module__ == "numpy" and hasattr(argument, "__array__"):
            argument = torch.as_tensor(argument)
        if not isinstance(argument, torch.Tensor):
            raise TypeError(
                f"example: got {type(argument).__name__}, expected tensors, or a dict of those parameters that are tensors,"
                " such as torch.zeros(1, 3, 224, 224)"
            )
        return argument

    if isinstance(example, Mapping):
        return {name: tensor(argument) for name, argument in example.items()}
    return tuple(tensor(part) for part in example) if isinstance(example, (tuple, list)) else tensor(example)


def _reason(error: BaseException) -> str:
    return str(error).split("[Caused by")[0].strip()


def _first_cause(error: BaseException) -> str:
    """The first line of what torch.export could not do; what is around it are hints on its own use."""
    while error.__cause__ is not None:
        error = error.__cause__
    return next(iter(_reason(error).splitlines()), type(error).__name__)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the graph that the exporter prints where it fails: what else is printed comes afterwards."""
    import os
    import sys
    import tempfile

    sys.stdout.flush()
    try:
        kept = os.dup(1)
    except OSError:  # there is no standard output
        yield
        return
    has_failed = True
    with tempfile.TemporaryFile() as caught:
        os.dup2(caught.fileno(), 1)
        try:
            yield
            has_failed = False
        finally:
            sys.stdout.flush()
            os.dup2(kept, 1)
            os.close(kept)
            caught.seek(0)
            printed = caught.read()
            end = printed.find(b"ONNX graph being constructed during exception") if has_failed else -1
            os.write(1, printed if end < 0 else printed[:end])


def _write(called: Any, arguments: tuple[Any, ...], path: str, **options: Any) -> None:
    """By the exporter that traces; where it refuses the module, by that of torch.export."""
    import inspect
    import warnings

    import torch

    if "dynamo" in inspect.signature(torch.onnx.export).parameters:
        options["dynamo"] = False
    try:
        with _quiet(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=torch.jit._trace.TracerWarning, module=r"detent\.")
            warnings.filterwarnings("ignore", "You are using the legacy TorchScript-based ONNX export", DeprecationWarning)
            torch.onnx.export(called, arguments, path, **options)
        return
    except Exception as error:
        reason, cause = _reason(error), error
    try:
        _write_exported(called, arguments, path, options)
    except ImportError:
        raise Error(
            f"module: torch.onnx.export cannot write it: {reason}: with the package onnxscript, detent.from_torch tries"
            " torch.onnx.export(..., dynamo=True) too"
        ) from cause
    except Exception as error:
        raise Error(
            f"module: torch.onnx.export cannot write it: {reason}; nor can torch.onnx.export(..., dynamo=True):"
            f" {_first_cause(error)}"
        ) from cause


def _write_exported(called: Any, arguments: tuple[Any, ...], path: str, options: dict[str, Any]) -> None:
    import importlib
    import logging

    import torch

    importlib.import_module("onnxscript")
    open_axes = options["dynamic_axes"]
    shapes, several = [], []
    for name, argument in zip(options["input_names"], arguments, strict=True):
        axes = open_axes.get(name, {})
        shapes.append(axes or None)
        for axis in axes:  # torch.export takes a size of 1 for a constant
            argument = torch.cat([argument, argument], axis) if argument.shape[axis] == 1 else argument
        several.append(argument)
    keywords = {name: options[name] for name in ("input_names", "output_names")}
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        torch.onnx.export(
            called,
            tuple(several),
            path,
            dynamo=True,
            dynamic_shapes={"values": tuple(shapes)} if _takes_values(called) else tuple(shapes),
            opset_version=max(options["opset_version"], 18),
            verbose=False,
            external_data=False,
            **keywords,
        )
    finally:
        log.setLevel(level)


def _takes_values(called: Any) -> bool:
    """Whether all arguments are one parameter, *values."""
    import inspect

    return [p.kind for p in inspect.signature(called.forward).parameters.values()] == [inspect.Parameter.VAR_POSITIONAL]


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
    example: Any = None,
    *,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    dynamic_batch: bool = True,
    dynamic_axes: Mapping[str, Mapping[int, str] | Sequence[int]] | None = None,
    opset: int = 17,
    keep_formats: bool = True,
) -> Network:
    """The network of a torch.nn.Module, through `torch.onnx.export`; or of what torch.export.export gave.

    example: inputs as `module` takes them, batch first: a tensor, a tuple of them, or a dict by parameter name. What was
    exported has its own, and the sizes that it left open: it takes no other arguments.
    input_names, output_names: what they are called; usual are the names of the parameters of `forward`, and the keys of
    the dict that it returns, or output, output_1, ... dynamic_batch: batches of any size; else that of the example.
    dynamic_axes: further sizes that stay open, as `torch.onnx.export` takes them: {"x": {2: "height", 3: "width"}}, or
    {"x": [2, 3]}. opset: of the model in between. keep_formats: what `detent.torch` rounds is quantized in the network,
    with the scales that were learned; False: weights are float32 numbers, rounded, for `Network.quantize` to quantize all
    anew.

    The module is exported in evaluation mode; each part is left in the mode it was in. Needs the packages torch and onnx;
    with onnxscript, what the exporter that traces refuses is written by that of torch.export. Raises Error where neither
    can.

    >>> net = detent.from_torch(torchvision.models.resnet18(), torch.zeros(1, 3, 224, 224))
    """
    import os
    import sys
    import tempfile

    import torch

    if isinstance(module, torch.export.ExportedProgram):
        return _from_exported(module)
    module = getattr(module, "_orig_mod", module)  # of torch.compile
    if isinstance(module, torch.nn.DataParallel):
        module = module.module
    if example is None:
        raise TypeError("example: got NoneType, expected tensors, such as torch.zeros(1, 3, 224, 224)")
    called, usual_names, arguments = _call_of(module, _tensors(module, example))
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
        path = os.path.join(folder, f"{_name_of(module)}.onnx")
        _write(
            called if _returns_tensors(results) else _with_tensors_alone(called),
            arguments,
            path,
            input_names=names,
            output_names=outputs,
            dynamic_axes=_open_axes(shaped, dynamic_batch, dynamic_axes or {}),
            opset_version=opset,
        )
        more = ""
        if dynamic_batch and len({tuple(x.shape[:1]) for x in arguments}) > 1:
            more = ": inputs that do not all begin with the batch need dynamic_batch=False"
        return of_model(path, f"module {_name_of(module)}", more=more)


def _name_of(module: Any) -> str:
    return str(getattr(module, "original_name", type(module).__name__))  # of a module that was traced


def _from_exported(program: Any) -> Network:
    """The network of what torch.export.export gave, with the sizes that it left open."""
    import os
    import tempfile

    import torch

    with tempfile.TemporaryDirectory(prefix="detent-") as folder:
        path = os.path.join(folder, "ExportedProgram.onnx")
        try:
            torch.onnx.export(program, f=path, dynamo=True, verbose=False, external_data=False)
        except Exception as error:
            needs = " (it needs the package onnxscript)" if isinstance(error, ImportError) else ""
            raise Error(f"module: torch.onnx.export cannot write it{needs}: {_first_cause(error)}") from error
        return of_model(path, "module ExportedProgram")
