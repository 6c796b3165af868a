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
    with pytest.raises(ValueError, match="no module"):
        detent.torch.quantize_(torch.nn.ReLU(), "int4")
    with pytest.raises(TypeError, match="meta"):
        detent.torch.fake_quantize(x.detach().to("meta"), "int4")
    with pytest.raises(TypeError):
        detent.torch.fake_quantize(torch.zeros(3, dtype=torch.int32), "int4")
    assert isinstance(detent.torch.FakeQuantize("int4")(x), torch.Tensor)
    assert {"FakeQuantize", "fake_quantize", "quantize_"} == set(dir(detent.torch))
