"""Formats in networks that are trained."""

from __future__ import annotations

import numpy as np
import pytest

import detent

torch = pytest.importorskip("torch")


@pytest.fixture
def x():
    return torch.randn(16, 256, generator=torch.Generator().manual_seed(0), requires_grad=True)


@pytest.mark.parametrize("text", ["int4_g128", "nvfp4", "fp8_e4m3fn", "fixed:width=4,frac_width=2,gradient=clipped"])
def test_gives_what_the_format_gives(x, text):
    import detent.torch

    y = detent.torch.fake_quantize(x, text)
    np.testing.assert_array_equal(y.detach().numpy(), detent.Format(text).fake_quantize(x))
    assert detent.torch.fake_quantize(x.detach().half(), text).dtype == torch.float16


def test_gradient_passes_straight_through(x):
    import detent.torch

    weight = torch.randn_like(x)
    (detent.torch.fake_quantize(x, "int4") * weight).sum().backward()
    assert torch.equal(x.grad, weight)


def test_gradient_is_clipped_where_the_format_says_so(x):
    import detent.torch

    clipped = detent.Format("fixed", width=4, frac_width=2, gradient="clipped")
    weight = torch.ones_like(x)
    (detent.torch.fake_quantize(x, clipped) * weight).sum().backward()
    beyond = torch.from_numpy(clipped.saturates(x))
    assert 0 < beyond.float().mean() < 1
    assert torch.equal(x.grad == 0, beyond)
    assert torch.equal(x.grad[~beyond], weight[~beyond])


def test_module_trains_with_rounded_weights():
    import detent.torch

    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    assert detent.torch.quantize_(module, "int4", lambda part, name: name == "0") is module
    rounded = module[0].weight.detach().numpy()
    original = module[0].parametrizations.weight.original
    np.testing.assert_array_equal(rounded, detent.Format("int4").fake_quantize(original))
    assert "affine" in repr(module) and not hasattr(module[2], "parametrizations")
    inputs = torch.randn(64, 8)
    targets = inputs.sum(dim=1, keepdim=True)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.05)
    losses = []
    for _ in range(50):
        loss = ((module(inputs) - targets) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2


def test_what_cannot_be_raises(x):
    import detent.torch

    with pytest.raises(detent.Error):
        detent.torch.fake_quantize(x, "int99")
    for name, fault in {
        "module": lambda: detent.torch.quantize_(None, "int4"),
        "filter": lambda: detent.torch.quantize_(torch.nn.Linear(2, 2), "int4", filter=3),
        "example": lambda: detent.torch.LearnedFakeQuantize("int4", None),
        "scale": lambda: detent.torch.fake_quantize(x, "int4", scale=1.0),
    }.items():
        with pytest.raises(TypeError, match=f"^{name}: got "):
            fault()
    with pytest.raises(ValueError, match="no module"):
        detent.torch.quantize_(torch.nn.ReLU(), "int4")
    with pytest.raises(TypeError, match="meta"):
        detent.torch.fake_quantize(x.detach().to("meta"), "int4")
    with pytest.raises(TypeError):
        detent.torch.fake_quantize(torch.zeros(3, dtype=torch.int32), "int4")
    assert isinstance(detent.torch.FakeQuantize("int4")(x), torch.Tensor)
    assert {"FakeQuantize", "LearnedFakeQuantize", "fake_quantize", "quantize_"} == set(dir(detent.torch))


def test_gradient_of_a_learned_scale_is_that_of_the_paper():
    """The numbers of the program's own test, worked by hand: codes -4 to 3, scale 1/2."""
    import detent.torch

    x = torch.tensor([-3, -0.6, 0.3, 0.8, 2.0], requires_grad=True)
    scale = torch.tensor(0.5, requires_grad=True)
    y = detent.torch.fake_quantize(x, "fixed:width=3", scale=scale)
    assert y.tolist() == [-2, -0.5, 0.5, 1, 1.5]
    y.backward(torch.tensor([1, 2, 3, 4, 5.0]))
    assert x.grad.tolist() == [0, 2, 3, 4, 0]
    assert scale.grad.item() == pytest.approx((-4 + 2 * 0.2 + 3 * 0.4 + 4 * 0.4 + 5 * 3) / 15**0.5, rel=1e-5)


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("int4", -8, 7),
        ("int4:granularity=channel,axis=0", -8, 7),
        ("int4_g32", -8, 7),
        ("affine:width=4,signed=false", 0, 15),
        ("fixed:width=5", -16, 15),
    ],
)
def test_learned_scales_of_channels_and_groups(x, text, low, high):
    import detent.torch

    made = detent.Format(text)
    rounding = detent.torch.LearnedFakeQuantize(made, x, is_batch=True)
    scale = rounding.scale.detach()
    upstream = torch.randn_like(x)
    y = rounding(x)
    y.backward(upstream)
    groups = torch.from_numpy(made._spec.groups_of(list(x.shape)))
    spread = scale.double().reshape(-1)[groups]
    v = x.detach().double() / spread
    codes = v.round().clamp(low, high)
    inside = (v >= low - 0.5) & (v <= high + 0.5)
    torch.testing.assert_close(y.detach().double(), codes * spread, rtol=1e-5, atol=1e-6)
    assert torch.equal(x.grad, upstream * inside)
    slope = upstream.double() * (codes - v * inside)
    sums = torch.zeros(scale.numel(), dtype=torch.float64).index_add_(0, groups.reshape(-1), slope.reshape(-1))
    expected = sums / (x.numel() / (len(x) * scale.numel()) * high) ** 0.5
    torch.testing.assert_close(rounding.scale.grad.double().reshape(-1), expected, rtol=1e-3, atol=1e-3)


def test_trains_learned_scales():
    import detent.torch

    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    detent.torch.quantize_(module, "int4:granularity=channel", learned_scales=True)
    scales = [value for name, value in module.named_parameters() if name.endswith("scale")]
    assert [tuple(scale.shape) for scale in scales] == [(8,), (1,)]
    before = [scale.detach().clone() for scale in scales]
    optimizer = torch.optim.SGD(module.parameters(), lr=0.02)
    inputs = torch.randn(64, 8)
    losses = []
    for _ in range(50):
        loss = ((module(inputs) - inputs.sum(dim=1, keepdim=True)) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2
    assert not any(torch.equal(old, new) for old, new in zip(before, scales, strict=True))


def test_wrong_scales_raise(x):
    import detent.torch

    one = torch.tensor(1.0)
    with pytest.raises(detent.Error, match="scale"):
        detent.torch.fake_quantize(x, "nvfp4", scale=one)
    with pytest.raises(ValueError, match="expected \\(16,\\)"):
        detent.torch.fake_quantize(x, "int4:granularity=channel", scale=one)
    with pytest.raises(ValueError, match="above 0"):
        detent.torch.fake_quantize(x, "int4", scale=-one)
    with pytest.raises(TypeError, match="float64"):
        detent.torch.fake_quantize(x.double(), "int4", scale=one)


def test_weights_are_rounded_once():
    module = detent.torch.quantize_(torch.nn.Linear(4, 4), "int4")
    with pytest.raises(ValueError, match="the weight of ParametrizedLinear is rounded to affine:width=4.* already"):
        detent.torch.quantize_(module, "int8")
