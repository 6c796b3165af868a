"""Networks in files and in memory."""

from __future__ import annotations

import os

from detent import _detent
from detent._arguments import checked, checked_argument, is_listing
from detent._errors import Error
from detent._networks import Network

TYPE_CHECKING = False  # but for type checkers
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from detent._types import Path


def of_model(path: str, name: str, *, shapes: dict[str, list[int]] | None = None, more: str = "") -> Network:
    """The network in a file that the user has not named: messages say `name` for it."""
    import logging

    def of_name(record: logging.LogRecord) -> bool:
        record.msg, record.args = record.getMessage().replace(path, name), ()
        return True

    log = logging.getLogger("detent")
    log.addFilter(of_name)
    try:
        return Network(_detent.load(path, shapes or {}, "", None, name.removeprefix("module ")))
    except Error as error:
        text = str(error).replace(path, name) + more
        raise Error(text, node=error.node, key=error.key, got=error.got, allowed=error.allowed) from None
    finally:
        log.removeFilter(of_name)


def _of_bytes(model: bytes, shapes: dict[str, list[int]]) -> Network:
    import tempfile

    with tempfile.TemporaryDirectory(prefix="detent-") as folder:
        path = os.path.join(folder, "model.onnx")
        with open(path, "wb") as file:
            file.write(model)
        return of_model(path, "model in memory", shapes=shapes)


def _sizes(name: str, shape: Any) -> list[int]:
    if not is_listing(shape):
        raise TypeError(f"shapes, {name}: got {type(shape).__name__}, expected a list of sizes")
    return [checked_argument(f"shapes, {name}", size, "int") for size in shape]


@checked
def load(
    path: Path | bytes | Any,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    model: str | None = None,
    classes: int | None = None,
) -> Network:
    """The network in a file or in memory. A file is an ONNX model, a graph of Detent (.mz) or the folder of one, a language model as a folder of
    Hugging Face or a GGUF file; or parameters, of PyTorch (.pt, .pth, .th, .ckpt) or safetensors, for a built-in model.
    In memory an ONNX model may be its bytes, or an onnx.ModelProto, such as skl2onnx.to_onnx gives.

    shapes: of inputs whose sizes the network leaves open, by name: they are fixed then, but for the batch; of a built-in
    model, those of its input. model: the built-in one that parameters are of, as `detent list models` names it. classes: how
    many it has, where they are not those that it was made for. Raises Error where the file holds no network, and where
    parameters do not fit the model.

    >>> net = detent.load("model.onnx")
    >>> net = detent.load("resnet20.th", model="resnet20")
    >>> net = detent.load(skl2onnx.to_onnx(classifier, features))
    """
    if shapes is not None and not hasattr(shapes, "items"):
        raise TypeError(f"shapes: got {type(shapes).__name__}, expected a dict of shapes by input")
    fixed = {checked_argument("shapes", name, "str"): _sizes(name, shape) for name, shape in (shapes or {}).items()}
    if isinstance(path, bytes) or hasattr(path, "SerializeToString"):
        if model is not None or classes is not None:
            raise TypeError(f"path: got {type(path).__name__}, expected a file of parameters, as model is given")
        return _of_bytes(path if isinstance(path, bytes) else path.SerializeToString(), fixed)
    checked_argument("path", path, "Path")
    return Network(_detent.load(os.fsdecode(path), fixed, model or "", classes, ""))
