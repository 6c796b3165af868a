"""Number formats in networks of PyTorch that are trained.

>>> import detent.torch
>>> y = detent.torch.fake_quantize(x, "int4_g128")          # the gradient passes straight through
>>> detent.torch.quantize_(module, weights="int4_g128")     # of every Linear and convolution
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Union

import torch

from detent._formats import Format

__all__ = ["FakeQuantize", "fake_quantize", "quantize_"]

FormatLike = Union[str, Format]


def __dir__() -> list[str]:
    return __all__


class _StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, number_format: Format, seed: int) -> torch.Tensor:
        if x.device.type != "cpu":
            raise TypeError(f"x: got a tensor on {x.device}, expected one in memory of the processor")
        array = x.detach().contiguous()
        ctx.clips = number_format.keys.get("gradient") == "clipped"
        if ctx.clips:
            ctx.save_for_backward(torch.from_numpy(number_format.saturates(array)))
        return torch.from_numpy(number_format.fake_quantize(array, seed=seed)).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        gradient = gradients[0]
        return (gradient.masked_fill(ctx.saved_tensors[0], 0) if ctx.clips else gradient), None, None


def fake_quantize(x: torch.Tensor, number_format: FormatLike, *, seed: int = 0) -> torch.Tensor:
    """`Format.fake_quantize` of a tensor of any float dtype, with a gradient.

    The gradient passes straight through: everywhere, or, of a format with `gradient="clipped"`, only where the format holds
    the element, as in training by the command. Raises TypeError where `x` is not in memory of the processor.
    """
    made = number_format if isinstance(number_format, Format) else Format(number_format)
    result: torch.Tensor = _StraightThrough.apply(x, made, seed)
    return result


class FakeQuantize(torch.nn.Module):
    """Rounds what passes to a format: a module around `fake_quantize`, and a parametrization of weights."""

    def __init__(self, number_format: FormatLike) -> None:
        super().__init__()
        self.format = number_format if isinstance(number_format, Format) else Format(number_format)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`x`, rounded."""
        return fake_quantize(x, self.format)

    def extra_repr(self) -> str:
        """The format."""
        return str(self.format)


def _has_weights(module: torch.nn.Module, name: str) -> bool:
    return isinstance(module, (torch.nn.Linear, torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d))


def quantize_(
    module: torch.nn.Module,
    weights: FormatLike,
    filter: Callable[[torch.nn.Module, str], bool] | None = None,
) -> torch.nn.Module:
    """Gives layers weights that are rounded to a format at each use, and returns the module.

    The weights stay as they are, and are what is trained: `torch.nn.utils.parametrize`. filter: which modules, by module and
    name; usual are Linear, Conv1d, Conv2d and Conv3d. Raises ValueError where there are none.
    """
    from torch.nn.utils import parametrize

    chosen = [part for name, part in module.named_modules() if (filter or _has_weights)(part, name)]
    if not chosen:
        raise ValueError("no module to quantize")
    for part in chosen:
        parametrize.register_parametrization(part, "weight", FakeQuantize(weights))
    return module
