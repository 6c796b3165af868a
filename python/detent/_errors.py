"""Exceptions of the package."""

from __future__ import annotations

TYPE_CHECKING = False  # but for type checkers
if TYPE_CHECKING:
    from typing import Any

_PATTERNS = {
    "file": (r"^(\S+\.(?:onnx|mz|npy|npz|safetensors|toml|pt|pth|ckpt|gguf|html))(?:[:, ]|$)",),
    "node": (r'node "([^"]+)"', r"node ([\w.]+)"),
    "key": (r'key "([^"]+)"', r"^(\w+)=", r"^(\w+): got"),
    "got": (r"got (.+?)(?:, expected|: |$)",),
    "allowed": (r"expected (.+?)(?:: |$)", r"\(known: ([^)]*)\)"),
}


class Error(Exception):
    """A fault of what was given: a file, an option, a shape. The message names it, what was found and what is allowed.

    file: the file that is at fault. node: the node, or the input, of the network. key: the option or the key of a file.
    got: the value that was found. allowed: the values that are possible. None where there is none.

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

    def __init__(
        self,
        message: str = "",
        *,
        file: str | None = None,
        node: str | None = None,
        key: str | None = None,
        got: str | None = None,
        allowed: str | None = None,
    ) -> None:
        import re  # what fails may take its time; `import detent` may not

        message = _in_python_words(message)
        super().__init__(message)
        for name, given in (("file", file), ("node", node), ("key", key), ("got", got), ("allowed", allowed)):
            found = None if given is not None else _said(re, name, message)
            setattr(self, name, given if found is None else found)


def _said(re: Any, name: str, message: str) -> str | None:
    """What the message says where the fault came without fields."""
    found = next((m for m in (re.search(p, message, re.S) for p in _PATTERNS[name]) if m), None)
    return str(found.group(1)) if found else None


def _in_python_words(message: str) -> str:
    """Options of the command are keyword parameters here: --weight-group-size is weight_group_size=."""
    import re

    return re.sub(
        r"(?<![\w-])--([a-z][a-z-]*[a-z])( (?=none\b|\S+,))?",
        lambda m: m.group(1).replace("-", "_") + ("=" if m.group(2) else ""),
        message,
    )
