"""Modules of all kinds, as networks."""

from __future__ import annotations

import numpy as np
import pytest

import detent

torch = pytest.importorskip("torch")


class Answers(torch.nn.Module):
    """Several outputs by name."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(4)
        self.first = torch.nn.Linear(4, 2)
        self.second = torch.nn.Linear(4, 3)

    def forward(self, x):
        x = self.norm(x)
        return {"mask": self.first(x), "pair": (self.second(x), x + 1), "none": None}


class Optional(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x, scale=None, bias=None, *, gate=None):
        x = self.layer(x)
        if scale is not None:
            x = x * scale
        if bias is not None:
            x = x + bias
        return x if gate is None else x * gate


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x, mask):
        return self.attention(x, x, x, key_padding_mask=mask, need_weights=False)[0]


def same(net, module, inputs):
    found = list(net.run(inputs).values())
    with torch.no_grad():
        expected = module.eval()(**inputs)
    for array, tensor in zip(found, expected if isinstance(expected, list) else [expected], strict=True):
        np.testing.assert_allclose(array, tensor.numpy(), rtol=1e-4, atol=1e-5)


def test_outputs_are_called_as_the_module_does():
    module = Answers().eval()
    net = detent.from_torch(module, torch.randn(2, 4))
    assert net.name == "Answers"
    assert net.outputs == ["mask", "pair", "pair_1"]
    x = torch.randn(3, 4)
    np.testing.assert_allclose(net.run(x)["pair"], module(x)["pair"][0].detach(), rtol=1e-4, atol=1e-5)
    lstm = torch.nn.LSTM(4, 3, batch_first=True)
    assert detent.from_torch(lstm, torch.randn(2, 5, 4)).outputs == ["output", "output_1", "output_2"]
    with pytest.raises(TypeError, match="output_names: got 1, expected 3"):
        detent.from_torch(module, x, output_names=["mask"])


def test_each_part_stays_in_its_mode():
    module = Answers().train()
    module.norm.eval()
    detent.from_torch(module, torch.randn(2, 4))
    assert module.training and module.first.training and not module.norm.training


def test_parameters_that_are_not_given_keep_their_defaults():
    module = Optional()
    x, other = torch.randn(3, 4), torch.randn(3, 4)
    for name in ("scale", "bias", "gate"):
        net = detent.from_torch(module, {name: other[:1], "x": x[:1]})
        assert [found.name for found in net.inputs] == ["x", name]
        same(net, module, {"x": x, name: other})
    with pytest.raises(TypeError, match="got y, expected parameters of forward: x, scale"):
        detent.from_torch(module, {"x": x, "y": other})
    with pytest.raises(TypeError, match="got NoneType, expected tensors, or a dict"):
        detent.from_torch(module, (x, None, other))


def test_parameters_without_names_are_counted():
    class Sum(torch.nn.Module):
        def forward(self, *terms):
            return terms[0] + terms[1]

    names = [found.name for found in detent.from_torch(Sum(), (torch.ones(1, 2), torch.ones(1, 2))).inputs]
    assert names == ["terms_0", "terms_1"]
    traced = torch.jit.trace(torch.nn.Linear(2, 2), torch.ones(1, 2))
    assert detent.from_torch(traced, torch.ones(1, 2)).run(np.ones((3, 2), np.float32))["output"].shape == (3, 2)


def test_attention_in_evaluation_mode():
    module = Attention().eval()
    mask = torch.tensor([[False, False, True], [False, True, True]])
    inputs = {"x": torch.randn(2, 3, 8), "mask": mask}
    fast = torch.backends.mha.get_fastpath_enabled()
    same(detent.from_torch(module, tuple(inputs.values())), module, inputs)
    assert torch.backends.mha.get_fastpath_enabled() == fast


def test_bfloat16_comes_as_float32():
    module = torch.nn.Linear(4, 2).bfloat16()
    x = torch.randn(3, 4).bfloat16()
    y = detent.from_torch(module, x[:1]).run(x)["output"]
    assert y.dtype == np.float32
    np.testing.assert_allclose(y, module(x).detach().float(), rtol=2e-2, atol=1e-2)


def test_states_that_do_not_begin_with_the_batch():
    module = torch.nn.GRU(4, 3, batch_first=True)
    example = (torch.randn(2, 5, 4), torch.randn(1, 2, 3))
    with pytest.raises(detent.Error, match="dynamic_batch=False"):
        detent.from_torch(module, example)
    net = detent.from_torch(module, example, dynamic_batch=False)
    np.testing.assert_allclose(
        next(iter(net.run(dict(zip(["input", "hx"], example, strict=True))).values())),
        module(*example)[0].detach(),
        rtol=1e-4,
        atol=1e-5,
    )


def rounded_module(learned):
    import detent.torch

    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    detent.torch.quantize_(module, "int4:granularity=channel", learned_scales=learned)
    if learned:
        with torch.no_grad():
            module[0].parametrizations.weight[0].scale.mul_(0.7)
    return module


@pytest.mark.parametrize("learned", [False, True])
def test_rounded_weights_keep_their_format(learned, tmp_path):
    module, x = rounded_module(learned), torch.randn(5, 4)
    net = detent.from_torch(module, x[:1])
    same(net, module, {"input": x})
    layers = [node for node in net.nodes if "weight" in node.formats]
    assert len(layers) == 2 and all("width=4" in node.formats["weight"] for node in layers)
    if learned:
        scale = module[0].parametrizations.weight[0].scale
        found = detent.Format(layers[0].formats["weight"]).keys["scale"]
        np.testing.assert_array_equal(np.float32(found), scale.detach().numpy())
    for path in ("net.onnx", "net.mz"):
        (net.export if path.endswith("onnx") else net.save)(tmp_path / path)
        np.testing.assert_array_equal(detent.load(tmp_path / path).run(x)["output"], net.run(x)["output"])
    numbers = detent.from_torch(module, x[:1], keep_formats=False)
    same(numbers, module, {"input": x})
    assert not numbers.is_quantized
    assert numbers.quantize(torch.randn(32, 4), analyze=False).network.is_quantized


def test_rounded_activations_are_quantized():
    import detent.torch

    x = torch.randn(5, 4)
    for keeps in (True, False):
        module = rounded_module(True)
        module.insert(1, detent.torch.FakeQuantize("fixed:width=6,frac_width=3"))
        module.insert(0, detent.torch.LearnedFakeQuantize("int4", x, is_batch=True))
        net = detent.from_torch(module, x[:1], keep_formats=keeps)
        same(net, module, {"input": x})
        assert any("scale=" in text for node in net.nodes for text in node.formats.values())


def test_results_of_all_kinds():
    import dataclasses

    @dataclasses.dataclass
    class Found:
        scores: torch.Tensor
        boxes: torch.Tensor

    class Many(Optional):
        def forward(self, x):
            x = self.layer(x)
            return Found(x, x + 1), None, 3, {"last": x - 1}

    module, x = Many(), torch.randn(3, 4)
    net = detent.from_torch(module, x[:1])
    assert net.outputs == ["scores", "boxes", "last"]
    np.testing.assert_allclose(net.run(x)["boxes"], module(x)[0].boxes.detach(), rtol=1e-4, atol=1e-5)


def test_calls_of_all_kinds():
    class Others(Optional):
        def forward(self, x, scale=None, use_cache=None, **others):
            assert use_cache is None and not others
            return super().forward(x, scale)

    x, scale = torch.randn(3, 4), torch.randn(3, 1)
    for example in ((x[:1], scale[:1]), {"x": x[:1], "scale": scale[:1]}):
        module = Others()
        same(detent.from_torch(module, example), module, {"x": x, "scale": scale})
    number = torch.tensor(2.0)
    same(detent.from_torch(module, (x[:1], number)), module, {"x": x, "scale": number})
    same(detent.from_torch(torch.nn.DataParallel(module), x[:1]), module, {"x": x})


def test_what_cannot_be_exported_says_so():
    class Svd(torch.nn.Module):
        def forward(self, x):
            return torch.linalg.svd(x)[1]

    with pytest.raises(detent.Error, match=r"module: torch.onnx.export cannot write it: .*svd.*dynamo=True"):
        detent.from_torch(Svd(), torch.randn(4, 4))

    class Fails(torch.nn.Module):
        def forward(self, x):
            raise KeyError("from the module")

    with pytest.raises(KeyError, match="from the module"):
        detent.from_torch(Fails(), torch.randn(4, 4))
    with pytest.raises(detent.Error, match="^Linear: "):
        detent.from_torch(torch.nn.Linear(4, 4), torch.randn(1, 4)).generate("text")


class Pooled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, x):
        return self.layer(x).relu().mean((2, 3))


@pytest.mark.parametrize("axes", [{2: "height", 3: "width"}, [2, -1], {2: "N_2", 3: "side"}])
def test_more_sizes_than_the_batch_stay_open(axes):
    module = Pooled().eval()
    net = detent.from_torch(module, torch.zeros(1, 3, 8, 8), dynamic_axes={"x": axes})
    assert all(isinstance(size, str) for size in (net.inputs[0].shape[i] for i in (0, 2, 3)))
    same(net, module, {"x": torch.randn(2, 3, 12, 7)})


@pytest.mark.parametrize(
    ("axes", "kind", "words"),
    [
        ({"y": [2]}, detent.Error, 'unknown input or output "y" .known: x, output'),
        ({"x": [4]}, detent.Error, "x: got axis 4, expected one of an array of 4 dimensions"),
        ({"x": 2}, TypeError, "x: got int, expected axes"),
        ({"x": {"2": "h"}}, TypeError, "x: got str, expected an integer"),
        ({"x": {2: 3}}, TypeError, "x, 2: got int, expected str"),
        ([2], TypeError, "dynamic_axes: got list, expected a dict"),
    ],
)
def test_axes_that_there_are_not_are_refused(axes, kind, words):
    with pytest.raises(kind, match=words):
        detent.from_torch(Pooled(), torch.zeros(1, 3, 8, 8), dynamic_axes=axes)


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x, factor: float = 0.5, times: int = 3, is_shifted: bool = True):
        return self.layer(x) * factor * times + (1 if is_shifted else 0)


def test_numbers_that_are_defaults_are_no_inputs():
    module = Scaled()
    net = detent.from_torch(module, torch.zeros(1, 4))
    assert [found.name for found in net.inputs] == ["x"]
    same(net, module, {"x": torch.randn(3, 4)})


def test_examples_may_be_arrays_of_numpy():
    module, x = Optional(), np.ones((1, 4), np.float32)
    for example in (x, (x, x), {"x": x, "scale": x}):
        assert detent.from_torch(module, example).inputs[0].shape == ("N", 4)
    with pytest.raises(TypeError, match="example: got int, expected tensors"):
        detent.from_torch(module, (1, 4))
    with pytest.raises(TypeError, match="example: got NoneType, expected tensors"):
        detent.from_torch(module)


class Grouped(torch.nn.Module):
    """Attention whose keys are shared by heads: the exporter that traces refuses it."""

    def __init__(self):
        super().__init__()
        self.query = torch.nn.Linear(16, 16)
        self.key = torch.nn.Linear(16, 8)

    def forward(self, x):
        query = self.query(x).unflatten(-1, (4, 4)).transpose(1, 2)
        key = self.key(x).unflatten(-1, (2, 4)).transpose(1, 2)
        y = torch.nn.functional.scaled_dot_product_attention(query, key, key, enable_gqa=True)
        return y.transpose(1, 2).flatten(2)


@pytest.mark.parametrize("batch", [1, 3])
def test_what_a_trace_cannot_hold_is_written_by_the_other_exporter(batch, capfd):
    pytest.importorskip("onnxscript")
    module = Grouped().eval()
    net = detent.from_torch(module, torch.randn(batch, 5, 16), dynamic_axes={"x": {1: "length"}})
    assert "ONNX graph being constructed" not in capfd.readouterr().out
    assert net.inputs[0].shape == ("N", "length", 16) and net.outputs == ["output"]
    same(net, module, {"x": torch.randn(2, 7, 16)})


def test_what_the_module_prints_is_printed(capfd):
    class Printing(torch.nn.Module):
        def forward(self, x):
            print("from the module")
            return x + 1

    detent.from_torch(Printing(), torch.ones(1, 2))
    assert "from the module" in capfd.readouterr().out


def test_exported_programs():
    pytest.importorskip("onnxscript")
    module = Pooled().eval()
    program = torch.export.export(module, (torch.randn(2, 3, 8, 8),), dynamic_shapes=({0: torch.export.Dim("N")},))
    net = detent.from_torch(program)
    assert net.inputs[0].shape == ("N", 3, 8, 8)
    same(net, module, {"x": torch.randn(5, 3, 8, 8)})


def test_messages_name_the_module(caplog):
    import detent.torch

    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    x = torch.randn(8, 4)
    module.insert(0, detent.torch.LearnedFakeQuantize("int8", x, is_batch=True))
    detent.torch.quantize_(module, "int8")
    detent.from_torch(module, x)
    assert "module Sequential: biases of" in caplog.text and ".onnx" not in caplog.text
    traced = torch.jit.trace(torch.nn.Linear(2, 2), torch.ones(1, 2))
    assert detent.from_torch(traced, torch.ones(1, 2)).name == "Linear"
