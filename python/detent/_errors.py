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

        message = in_python_words(message)
        super().__init__(message)
        for name, given in (("file", file), ("node", node), ("key", key), ("got", got), ("allowed", allowed)):
            found = None if given is not None else _said(re, name, message)
            setattr(self, name, given if found is None else found)


def _said(re: Any, name: str, message: str) -> str | None:
    """What the message says where the fault came without fields."""
    found = next((m for m in (re.search(p, message, re.S) for p in _PATTERNS[name]) if m), None)
    return str(found.group(1)) if found else None


# Options of the command are keyword parameters here: `detent quantize --keep-float X` is `net.quantize(keep_float='X')`.
_PHRASES = (
    (r"`detent export MODEL FIXED\.onnx --shape \S+ writes a model that has it", "detent.load(..., shapes=) fixes it"),
    (r"with --overwrite", "with overwrite=True"),
    (r"--labels FILE", "pairs of inputs and labels"),
    (r"with --classes FILE", "with the argument classes"),
    (r"^detent (quantize|search|compare): ", r"\1: "),
    (
        r"(the network is quantized already.*)$",
        r"\1 (what it was made of; a module that detent.torch rounds: detent.from_torch(..., keep_formats=False))",
    ),
)
_NAME = r"--([a-z][a-z-]*[a-z])"
_CALL = r"`detent (quantize|search|compare|test)((?: --[a-z][a-z-]*(?: (?!--)[^\s`]+)?)+)`"
# In a sentence values are "none", quoted, or have a digit, a capital or a comma within; what else follows is a word.
_VALUE = r"(none\b|'[^']*'|(?=[^\s;:()`]*(?:[\dA-Z]|,\S))[^\s;:()`]*[^\s,;:()`])"


def _keyword(match: Any) -> str:
    name, value = match.group(1).replace("-", "_"), match.group(2)
    if not value:
        return str(name)
    is_python = value[0] == "'" or value.replace(".", "", 1).isdigit()
    return f"{name}={value if is_python else repr(value)}"


def _call(match: Any) -> str:
    import re

    options = re.finditer(_NAME + r"(?: ((?!--)\S+))?", match.group(2))
    given = [_keyword(option) if option.group(2) else f"{_keyword(option)}=True" for option in options]
    return f"`net.{match.group(1)}({', '.join(given)})`"


def advice_in_python(text: str) -> str:
    """Lines of options, each with a colon behind, as keywords."""
    import re

    def keywords(match: Any) -> str:
        options = re.finditer(_NAME + r" ('[^']*'|(?:(?!: )\S)+)", match.group(2))
        return f"{match.group(1)}{', '.join(map(_keyword, options))}: "

    return re.sub(r"(?m)^(\s+)(--.*?): ", keywords, text)


def in_python_words(message: str) -> str:
    """A message of the libraries, which name options as the command has them."""
    import re

    if not any(sign in message for sign in ("--", "detent ", "quantized already")):
        return message
    for pattern, words in _PHRASES:
        message = re.sub(pattern, words, message)
    message = re.sub(_CALL, _call, message)
    return str(re.sub(rf"(?<![\w-]){_NAME}(?: {_VALUE})?", _keyword, message))
