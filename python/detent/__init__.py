"""Put the numbers of a neural network on fewer bits, and see what that costs.

>>> net = detent.from_torch(module, example)
>>> result = net.quantize(loader, test=test_loader)
>>> print(result)
>>> result.network.export("int8.onnx")
"""

from __future__ import annotations

from detent import _detent
from detent._errors import Error
from detent._formats import Format, format_names
from detent._loading import load
from detent._networks import Network, Session, compare, num_threads, quantize, set_num_threads

TYPE_CHECKING = False  # but for type checkers
if TYPE_CHECKING:
    from typing import Any

    from detent._compare import ComparedNetwork, ComparisonResult
    from detent._format_results import Encoded, FormatError
    from detent._language import (
        Answers,
        FormatPerplexities,
        GeneratedText,
        GeneratedToken,
        Generation,
        Perplexity,
        Tokenizer,
    )
    from detent._nodes import Input, Node, Nodes
    from detent._results import Accuracy, QuantizeResult, Sizes
    from detent._search import SearchPoint, SearchResult
    from detent._torch_export import from_torch

# Imported when they are first asked for: `import detent` is quick.
_LATER = {
    "Accuracy": "_results",
    "Answers": "_language",
    "ComparedNetwork": "_compare",
    "ComparisonResult": "_compare",
    "Encoded": "_format_results",
    "FormatError": "_format_results",
    "FormatPerplexities": "_language",
    "GeneratedText": "_language",
    "GeneratedToken": "_language",
    "Generation": "_language",
    "Input": "_nodes",
    "Node": "_nodes",
    "Nodes": "_nodes",
    "Perplexity": "_language",
    "QuantizeResult": "_results",
    "SearchPoint": "_search",
    "SearchResult": "_search",
    "Sizes": "_results",
    "Tokenizer": "_language",
    "from_torch": "_torch_export",
}

__version__: str = _detent.version()

__all__ = [
    "Accuracy",
    "Answers",
    "ComparedNetwork",
    "ComparisonResult",
    "Encoded",
    "Error",
    "Format",
    "FormatError",
    "FormatPerplexities",
    "GeneratedText",
    "GeneratedToken",
    "Generation",
    "Input",
    "Network",
    "Node",
    "Nodes",
    "Perplexity",
    "QuantizeResult",
    "SearchPoint",
    "SearchResult",
    "Session",
    "Sizes",
    "Tokenizer",
    "__version__",
    "compare",
    "format_names",
    "from_torch",
    "load",
    "num_threads",
    "quantize",
    "set_num_threads",
]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'detent' has no attribute '{name}'")
    import importlib

    value = getattr(importlib.import_module("detent." + _LATER[name]), name)
    globals()[name] = value
    return value
