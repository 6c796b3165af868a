"""Exceptions of the package."""

from __future__ import annotations

_PATTERNS = {
    "file": (r"^(\S+\.(?:onnx|mz|npy|npz|safetensors|toml|pt|pth|ckpt|gguf|html))(?:[:, ]|$)",),
    "node": (r'node "([^"]+)"', r"node ([\w.]+)"),
    "key": (r'key "([^"]+)"', r"^(\w+)=", r"^(\w+): got"),
    "got": (r"got (.+?)(?:, expected|: |$)",),
    "allowed": (r"expected (.+?)(?:: |$)", r"\(known: ([^)]*)\)"),
}


class Error(Exception):
    """A fault of what was given: a file, an option, a shape. The message names it, what was found and what is allowed.

    The attributes are what the message says, None where it does not:

    file: the file that is at fault. node: the node of the network. key: the option or the key of a file.
    got: the value that was found. allowed: the values that are possible.

    >>> try:
    ...     detent.Format("int99")
    ... except detent.Error as error:
    ...     print(error)
    """

    file: str | None
    node: str | None
    key: str | None
    got: str | None
    allowed: str | None

    def __init__(self, message: str = "") -> None:
        import re  # what fails may take its time; `import detent` may not

        message = _in_python_words(message)
        super().__init__(message)
        for name, patterns in _PATTERNS.items():
            found = next((m for m in (re.search(p, message, re.S) for p in patterns) if m), None)
            setattr(self, name, found.group(1) if found else None)


def _in_python_words(message: str) -> str:
    """Options of the command are keyword parameters here: --weight-group-size is weight_group_size=."""
    import re

    return re.sub(
        r"(?<![\w-])--([a-z][a-z-]*[a-z])( (?=none\b|\S+,))?",
        lambda m: m.group(1).replace("-", "_") + ("=" if m.group(2) else ""),
        message,
    )
