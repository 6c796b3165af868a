"""Networks of PyTorch, by its own exporter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from detent._networks import Network, load


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
    input_names, output_names: what they are called; usual are the names of the parameters of `forward`, and output,
    output_1, ... dynamic_batch: batches of any size; else that of the example. opset: of the model in between. The module
    is exported in evaluation mode and left in the mode it was in. Needs the packages torch and onnx.

    >>> net = detent.from_torch(torchvision.models.resnet18(), torch.zeros(1, 3, 224, 224))
    """
    import inspect
    import os
    import tempfile

    import torch

    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"module: got {type(module).__name__}, expected a torch.nn.Module")
    if isinstance(example, Mapping):
        names, arguments = list(example), tuple(example.values())
        order = [name for name in inspect.signature(module.forward).parameters if name in example]
        if len(order) != len(names):
            raise TypeError(f"example: got {', '.join(map(str, names))}, expected parameters of forward")
        names, arguments = order, tuple(example[name] for name in order)
    else:
        arguments = tuple(example) if isinstance(example, (tuple, list)) else (example,)
        names = list(inspect.signature(module.forward).parameters)[: len(arguments)]
    for argument in arguments:
        if not isinstance(argument, torch.Tensor):
            raise TypeError(f"example: got {type(argument).__name__}, expected tensors")
    names = list(input_names) if input_names is not None else names
    if len(names) != len(arguments):
        raise TypeError(f"input_names: got {len(names)}, expected {len(arguments)}")
    with torch.no_grad():
        was_training = module.training
        module.eval()
        try:
            results = module(*arguments)
            count = len(results) if isinstance(results, (tuple, list)) else 1
            outputs = list(output_names or (["output"] + [f"output_{i}" for i in range(1, count)]))
            with tempfile.TemporaryDirectory(prefix="detent-") as folder:
                path = os.path.join(folder, "model.onnx")
                axes = {name: {0: "N"} for name in [*names, *outputs]} if dynamic_batch else None
                options: dict[str, Any] = {}
                if "dynamo" in inspect.signature(torch.onnx.export).parameters:
                    options["dynamo"] = False
                torch.onnx.export(
                    module,
                    arguments,
                    path,
                    input_names=names,
                    output_names=outputs,
                    dynamic_axes=axes,
                    opset_version=opset,
                    **options,
                )
                return load(path)
        finally:
            module.train(was_training)
