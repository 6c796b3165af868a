"""Put the numbers of a neural network on fewer bits, and see what that costs.

>>> net = detent.from_torch(module, example)
>>> result = net.quantize(loader, test=test_loader)
>>> print(result)
>>> result.network.export("int8.onnx")
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from detent import _detent
from detent._errors import Error
from detent._formats import Encoded, Format, FormatError, format_names
from detent._networks import Network, Session, load, num_threads, quantize, set_num_threads
from detent._nodes import Input, Node, Nodes
from detent._results import Accuracy, QuantizeResult, Sizes
from detent._torch_export import from_torch

if _TYPE_CHECKING:
    from detent._language import Answers, GeneratedToken, Generation, Perplexity, Tokenizer

# Imported when they are first asked for: `import detent` is quick.
_LATER = {
    "Answers": "detent._language",
    "GeneratedToken": "detent._language",
    "Generation": "detent._language",
    "Perplexity": "detent._language",
    "Tokenizer": "detent._language",
}

__version__: str = _detent.version()

__all__ = [
    "Accuracy",
    "Answers",
    "Encoded",
    "Error",
    "Format",
    "FormatError",
    "GeneratedToken",
    "Generation",
    "Input",
    "Network",
    "Node",
    "Nodes",
    "Perplexity",
    "QuantizeResult",
    "Session",
    "Sizes",
    "Tokenizer",
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


def __getattr__(name: str) -> _Any:
    if name not in _LATER:
        raise AttributeError(f"module 'detent' has no attribute '{name}'")
    import importlib

    return getattr(importlib.import_module(_LATER[name]), name)
