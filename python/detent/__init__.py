"""Put the numbers of a neural network on fewer bits, and see what that costs.

>>> net = detent.from_torch(module, example)
>>> result = net.quantize(loader, test=test_loader)
>>> print(result)
>>> result.network.export("int8.onnx")
"""

from detent import _detent
from detent._errors import Error
from detent._formats import Encoded, Format, FormatError, format_names
from detent._networks import (
    Input,
    Network,
    Node,
    Nodes,
    Session,
    load,
    num_threads,
    quantize,
    set_num_threads,
)
from detent._results import Accuracy, QuantizeResult, Sizes
from detent._torch_export import from_torch

__version__: str = _detent.version()

__all__ = [
    "Accuracy",
    "Encoded",
    "Error",
    "Format",
    "FormatError",
    "Input",
    "Network",
    "Node",
    "Nodes",
    "QuantizeResult",
    "Session",
    "Sizes",
    "__version__",
    "format_names",
    "from_torch",
    "load",
    "num_threads",
    "quantize",
    "set_num_threads",
]


def __dir__() -> list[str]:
    return __all__
