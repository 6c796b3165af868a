"""Networks of PyTorch, by its own exporter."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from detent._errors import Error
from detent._networks import Network, load


def _output_names(results: Any) -> list[str]:
    """Names of the tensors that a module returned, in the exporter's order: the keys of a dict, else output, output_1, ..."""
    import torch

    found: list[str | None] = []

    def visit(value: Any, key: str | None) -> None:
        if isinstance(value, torch.Tensor):
            found.append(key)
        elif isinstance(value, Mapping):
            for inner, part in value.items():
                visit(part, str(inner))
        elif isinstance(value, (tuple, list)):
            for i, part in enumerate(value):
                visit(part, key if key is None or i == 0 else f"{key}_{i}")

    visit(results, None)
    return [key or (f"output_{i}" if i else "output") for i, key in enumerate(found)]


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
    keywords = any(p.kind == kinds.KEYWORD_ONLY for p in parameters.values())  # which the exporter gives by place

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


def _refuse_rounded_activations(called: Any, arguments: tuple[Any, ...]) -> None:
    """The exporter would keep those of the example as constants."""
    import sys

    import torch

    rounding = sys.modules.get("detent.torch")
    if rounding is None:
        return
    others = tuple(torch.zeros_like(x) if x.any() else torch.ones_like(x) for x in arguments)
    sums = rounding._sums_rounded(lambda: called(*arguments))
    if sums and sums != rounding._sums_rounded(lambda: called(*others)):
        raise Error(
            "module: detent.torch rounds activations in it, which the exporter cannot say: export it without, and give"
            " net.quantize the format (activations=); rounded weights may stay"
        )


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


def from_torch(
    module: Any,
    example: Any,
    *,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    dynamic_batch: bool = True,
    opset: int = 17,
) -> Network:
    """The network of a torch.nn.Module, through `torch.onnx.export`.

    example: inputs as `module` takes them, batch first: a tensor, a tuple of them, or a dict by parameter name.
    input_names, output_names: what they are called; usual are the names of the parameters of `forward`, and the keys of
    the dict that it returns, or output, output_1, ... dynamic_batch: batches of any size; else that of the example. opset:
    of the model in between. The module is exported in evaluation mode; each part is left in the mode it was in. Needs the
    packages torch and onnx. What this exporter refuses, `torch.onnx.export(..., dynamo=True)` may write for `detent.load`.

    >>> net = detent.from_torch(torchvision.models.resnet18(), torch.zeros(1, 3, 224, 224))
    """
    import inspect
    import os
    import tempfile

    import torch

    module = getattr(module, "_orig_mod", module)  # of torch.compile
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"module: got {type(module).__name__}, expected a torch.nn.Module")
    called, usual_names, arguments = _call_of(module, example)
    for argument in arguments:
        if not isinstance(argument, torch.Tensor):
            raise TypeError(
                f"example: got {type(argument).__name__}, expected tensors, or a dict of those parameters that are tensors"
            )
    names = list(input_names) if input_names is not None else usual_names
    if len(names) != len(arguments):
        raise TypeError(f"input_names: got {len(names)}, expected {len(arguments)}")
    with _evaluated(module, called), tempfile.TemporaryDirectory(prefix="detent-") as folder:
        usual = _output_names(called(*arguments))
        outputs = list(output_names or usual)
        if len(outputs) != len(usual):
            raise TypeError(f"output_names: got {len(outputs)}, expected {len(usual)}")
        _refuse_rounded_activations(called, arguments)
        path = os.path.join(folder, f"{type(module).__name__}.onnx")
        options: dict[str, Any] = {}
        if "dynamo" in inspect.signature(torch.onnx.export).parameters:
            options["dynamo"] = False
        torch.onnx.export(
            called,
            arguments,
            path,
            input_names=names,
            output_names=outputs,
            dynamic_axes={name: {0: "N"} for name in [*names, *outputs]} if dynamic_batch else None,
            opset_version=opset,
            **options,
        )
        try:
            return load(path)
        except Error as error:
            if not dynamic_batch or len({tuple(x.shape[:1]) for x in arguments}) == 1:
                raise
            raise Error(f"{error}: inputs that do not all begin with the batch need dynamic_batch=False") from None
