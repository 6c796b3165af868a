"""Number formats in networks of PyTorch that are trained.

>>> import detent.torch
>>> y = detent.torch.fake_quantize(x, "int4_g128")          # the gradient passes straight through
>>> detent.torch.quantize_(module, weights="int4_g128")     # of every Linear and convolution
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Union

import torch

from detent._formats import Format

__all__ = ["FakeQuantize", "LearnedFakeQuantize", "fake_quantize", "quantize_"]

FormatLike = Union[str, Format]


def __dir__() -> list[str]:
    return __all__


_keeps_formats = True  # in exported models; else weights are numbers alone


@contextlib.contextmanager
def _values_alone() -> Iterator[None]:
    """Exports weights that are rounded as numbers."""
    global _keeps_formats
    _keeps_formats = False
    try:
        yield
    finally:
        _keeps_formats = True


class _Unsaved:
    """Of a function that is no operator of its own, where nothing is trained."""

    def save_for_backward(self, *_: Any) -> None:
        """Nothing is kept."""


def _applied(function: Any, x: torch.Tensor, *arguments: Any) -> Any:
    is_number = not _keeps_formats and isinstance(x, torch.nn.Parameter)
    return function.forward(_Unsaved(), x, *arguments) if is_number else function.apply(x, *arguments)


def _operator(g: Any, x: Any, number_format: Format, *scale: Any) -> Any:
    """What an exported model has instead, for `detent.from_torch`."""
    return g.op("detent::FakeQuantize", x, *scale, format_s=str(number_format)).setType(x.type())


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
    def symbolic(g: Any, x: Any, number_format: Format, seed: int) -> Any:
        return _operator(g, x, number_format)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        gradient = gradients[0]
        return (gradient.masked_fill(ctx.saved_tensors[0], 0) if ctx.clips else gradient), None, None


class _LearnedScale(torch.autograd.Function):
    """Learned step sizes: Esser et al. 2019, arXiv:1902.08153."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, scale: torch.Tensor, made: Format, factor: float, seed: int) -> torch.Tensor:
        about = made._spec.learned_scale(list(x.shape))
        spread = _spread(scale.detach(), made, x)
        scaled = (x.detach() / spread).contiguous()
        codes_format = Format(about["codes"])
        codes = torch.from_numpy(codes_format.fake_quantize(scaled, seed=seed))
        held = torch.from_numpy(codes_format.saturates(scaled)).logical_not()
        ctx.factor, ctx.made, ctx.scale_shape = factor, made, scale.shape
        ctx.save_for_backward(held, codes if about["slope_is_code"] else codes - scaled * held)
        return codes * spread

    @staticmethod
    def symbolic(g: Any, x: Any, scale: Any, made: Format, factor: float, seed: int) -> Any:
        return _operator(g, x, made, scale)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        held, slope = ctx.saved_tensors
        of_scale = torch.zeros(ctx.scale_shape.numel(), dtype=torch.float64)
        places = torch.from_numpy(ctx.made._spec.groups_of(list(slope.shape))).reshape(-1)
        of_scale.index_add_(0, places, (gradients[0] * slope).double().reshape(-1))
        of_scale = (of_scale * ctx.factor).to(gradients[0].dtype).reshape(ctx.scale_shape)
        return gradients[0] * held, of_scale, None, None, None


def _spread(scale: torch.Tensor, made: Format, x: torch.Tensor) -> torch.Tensor:
    """In the place of every element, its scale."""
    if scale.ndim == 0:
        return scale
    return scale[torch.from_numpy(made._spec.groups_of(list(x.shape)))]


def _with_learned_scale(x: torch.Tensor, made: Format, scale: torch.Tensor, samples: int, seed: int) -> torch.Tensor:
    about = made._spec.learned_scale(list(x.shape))
    if list(scale.shape) != about["shape"]:
        raise ValueError(f"scale: got shape {tuple(scale.shape)}, expected {tuple(about['shape'])}")
    for name, tensor in (("x", x), ("scale", scale)):
        if tensor.dtype != torch.float32 or tensor.device.type != "cpu":
            raise TypeError(
                f"{name}: got {tensor.dtype} on {tensor.device}, expected float32 in memory of the processor"
            )
    if not bool(((scale > 0) & torch.isfinite(scale)).all()):
        raise ValueError("scale: got one that is not above 0: try a smaller learning rate of scales")
    elements = x.numel() / (samples * scale.numel())
    factor = (elements * about["largest_code"]) ** -0.5
    result: torch.Tensor = _applied(_LearnedScale, x, scale, made, factor, seed)
    return result


def fake_quantize(
    x: torch.Tensor,
    number_format: FormatLike,
    *,
    scale: torch.Tensor | None = None,
    samples: int = 1,
    seed: int = 0,
) -> torch.Tensor:
    """`Format.fake_quantize` of a tensor of any float dtype, with a gradient.

    The gradient passes straight through: everywhere, or, of a format with `gradient="clipped"`, only where the format holds
    the element, as in training by the command. scale: one that is learned (LSQ), in the place of the format's, float32 of
    shape (), or of one a channel or group: the gradient of `x` is then clipped, that of the scale the one of training by the
    command. samples: of the batch, where `x` are activations. Raises TypeError where `x` is not in memory of the processor,
    and Error where the format has no scale to learn.

    >>> detent.torch.fake_quantize(torch.tensor([0.5, -3.5, 7]), "int4")
    tensor([ 0., -4.,  7.])
    """
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"x: got {type(x).__name__}, expected a tensor")
    made = number_format if isinstance(number_format, Format) else Format(number_format)
    if scale is not None and not isinstance(scale, torch.Tensor):
        raise TypeError(f"scale: got {type(scale).__name__}, expected a tensor")
    if scale is not None:
        return _with_learned_scale(x, made, scale, samples, seed)
    result: torch.Tensor = _applied(_StraightThrough, x, made, seed)
    return result


class LearnedFakeQuantize(torch.nn.Module):
    """Rounds what passes to a format whose scales are learned (LSQ): a parametrization of weights, or of activations.

    scale: the parameter, which begins with 2 mean |x| / sqrt(largest code) of `example`. is_batch: `x` are activations,
    batch first.

    >>> detent.torch.LearnedFakeQuantize("int4:granularity=channel", torch.ones(3, 4)).scale.shape
    torch.Size([3])
    """

    def __init__(self, number_format: FormatLike, example: torch.Tensor, *, is_batch: bool = False) -> None:
        super().__init__()
        self.format = number_format if isinstance(number_format, Format) else Format(number_format)
        if not isinstance(example, torch.Tensor):
            raise TypeError(f"example: got {type(example).__name__}, expected a tensor")
        self.format._spec.learned_scale(list(example.shape))
        begin = self.format._spec.initial_scale(example.detach())
        self.scale = torch.nn.Parameter(torch.from_numpy(begin.copy()))
        self.is_batch = is_batch

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`x`, rounded."""
        return fake_quantize(x, self.format, scale=self.scale, samples=len(x) if self.is_batch else 1)

    def extra_repr(self) -> str:
        """The format."""
        return str(self.format)


class FakeQuantize(torch.nn.Module):
    """Rounds what passes to a format: a module around `fake_quantize`, and a parametrization of weights.

    >>> rounded = torch.nn.Sequential(detent.torch.FakeQuantize("fp8_e4m3fn"), module)
    """

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
    *,
    learned_scales: bool = False,
) -> torch.nn.Module:
    """Gives layers weights that are rounded to a format at each use, and returns the module.

    The weights stay as they are, and are what is trained: `torch.nn.utils.parametrize`. filter: which modules, by module and
    name; usual are Linear, Conv1d, Conv2d and Conv3d. learned_scales: scales are parameters that are trained along (LSQ).
    Raises ValueError where there are none, and where weights are rounded already. `detent.from_torch` gives a network that
    has the rounded weights.

    >>> detent.torch.quantize_(module, "int4:granularity=channel")[0].weight.unique().numel() <= 16 * 4
    True
    """
    from torch.nn.utils import parametrize

    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"module: got {type(module).__name__}, expected a torch.nn.Module")
    if filter is not None and not callable(filter):
        raise TypeError(f"filter: got {type(filter).__name__}, expected a function of a module and its name")
    chosen = [part for name, part in module.named_modules() if (filter or _has_weights)(part, name)]
    if not chosen:
        raise ValueError("no module to quantize: expected Linear, Conv1d, Conv2d or Conv3d, or those of filter")
    for part in chosen:
        if not isinstance(getattr(part, "weight", None), torch.Tensor):
            raise ValueError(f"filter: chose {type(part).__name__}, which has no weight")
        for rounding in getattr(getattr(part, "parametrizations", {}), "weight", ()):
            if isinstance(rounding, (FakeQuantize, LearnedFakeQuantize)):
                raise ValueError(f"module: the weight of {type(part).__name__} is rounded to {rounding.format} already")
    for part in chosen:
        rounding = LearnedFakeQuantize(weights, part.weight) if learned_scales else FakeQuantize(weights)
        parametrize.register_parametrization(part, "weight", rounding)
    return module
