"""Quantizing from Python is what the command does."""

from __future__ import annotations

import json
import logging
import pathlib
import subprocess

import numpy as np
import onnx
import pytest

import detent
from detent import _detent


def graph_of_command(program, model, samples, folder: pathlib.Path, *options: str) -> tuple[bytes, dict]:
    path = folder / "samples.npy"
    np.save(path, samples)
    command = [program, "quantize", str(model), "--calibration", str(path), "--project-dir", str(folder), "--json", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (graph,) = folder.glob("*/software/quantize/graph_module.mz")
    return graph.read_bytes(), json.loads(done.stdout)


CASES = [
    ({}, []),
    ({"weights": "int4", "improve": ["gptq", "bias_correction"]}, ["--weights", "int4", "--improve", "gptq,bias_correction"]),
    ({"weights": "nvfp4", "activations": "fp8_e4m3fn"}, ["--weights", "nvfp4", "--activations", "fp8_e4m3fn"]),
    ({"bits": {"conv.*": 4, "fc": "8/8"}, "num_samples": 48}, ["--bits", "conv.*=4,fc=8/8", "--num-samples", "48"]),
    ({"calibrator": "percentile", "percentile": 99.5, "seed": 3}, ["--calibrator", "percentile", "--percentile", "99.5", "--seed", "3"]),
    ({"keep_float": ["fc"], "prepare": ["fold_constants"]}, ["--keep-float", "fc", "--prepare", "fold_constants"]),
]


@pytest.mark.parametrize(("options", "flags"), CASES, ids=[" ".join(flags) or "defaults" for _, flags in CASES])
def test_gives_the_bytes_of_the_command(program, model, net, images, batches, tmp_path, options, flags):
    expected, printed = graph_of_command(program, model, images, tmp_path, *flags)
    result = net.quantize(iter(batches(7)), **options)
    path = tmp_path / "module.mz"
    result.network.save(path)
    assert path.read_bytes() == expected
    assert result.output_sqnr_db == pytest.approx(
        next(row["sqnr"] for row in printed["outputs"]), abs=0.01
    ), "the table has two decimals"
    assert result.layers == printed["layerwise_error"]
    assert result.integer_execution == printed["integer_execution"]
    assert result.sizes_before.to_dict() == printed["sizes"]["float"]
    assert result.sizes_after.to_dict() == printed["sizes"]["quantized"]


def test_does_not_depend_on_how_samples_come(net, images, batches, tmp_path):
    sources = [
        images,
        batches(1),
        (image for image in images),
        lambda: iter(batches(50)),
        [{"x": batch} for batch in batches(96)],
        [(batch, np.zeros(len(batch), np.int64)) for batch in batches(10)],
    ]
    graphs = set()
    for i, source in enumerate(sources):
        net.quantize(source).network.save(tmp_path / f"{i}.mz")
        graphs.add((tmp_path / f"{i}.mz").read_bytes())
    assert len(graphs) == 1


def test_measures_accuracy(net, images, labels, batches):
    pairs = [(images[i : i + 8], labels[i : i + 8]) for i in range(0, 96, 8)]
    result = net.quantize(images, test=pairs)
    assert result.accuracy_before.accuracy == 1
    assert result.accuracy_after == result.network.test(pairs)
    assert isinstance(result.accuracy_after, detent.Accuracy) and isinstance(result, detent.QuantizeResult)
    assert result.accuracy_after.samples == 96
    assert result.accuracy_after.accuracy > 0.8
    assert "accuracy" in str(result)
    assert net.test([(images[0], int(labels[0]))]).correct == 1


def test_results_are_data(net, images):
    result = net.quantize(images, weights="int4")
    data = json.loads(json.dumps(result.to_dict()))
    assert data["sizes_after"]["weight_bytes"] == result.sizes_after.weight_bytes
    assert "network" not in data
    assert data["layers"][0]["node"] in [node.name for node in net.nodes]
    assert "<table>" in result._repr_html_()
    assert result.accuracy_before is None
    pandas = pytest.importorskip("pandas")
    assert isinstance(result.layers_frame(), pandas.DataFrame)


def test_the_network_is_the_same_without_analysis(net, images, tmp_path):
    results = [net.quantize(images, weights="int4", analyze=analyze) for analyze in (True, False)]
    for i, result in enumerate(results):
        result.network.save(tmp_path / f"{i}.mz")
    assert (tmp_path / "0.mz").read_bytes() == (tmp_path / "1.mz").read_bytes()
    assert results[0].layers and results[0].integer_execution and results[0].output_sqnr_db
    assert results[1].layers == [] and results[1].integer_execution == "" and results[1].output_sqnr_db is None


def test_what_codes_make_nan_stays_in_float_without_analysis(tmp_path):
    """Shares of exponentials, all of which may round to 0."""
    nodes = [
        onnx.helper.make_node("MatMul", ["x", "w"], ["scores"], "scores"),
        onnx.helper.make_node("Exp", ["scores"], ["parts"], "exp"),
        onnx.helper.make_node("Reshape", ["parts", "pairs"], ["paired"], "pair"),
        onnx.helper.make_node("ReduceSum", ["paired", "last"], ["sums"], "sum", keepdims=1),
        onnx.helper.make_node("Div", ["paired", "sums"], ["shares"], "div"),
        onnx.helper.make_node("Reshape", ["shares", "flat"], ["y"], "flatten"),
    ]
    constants = {"w": 20 * np.eye(8, dtype=np.float32), "pairs": np.array([-1, 4, 2]), "last": np.array([2]), "flat": np.array([-1, 8])}
    graph = onnx.helper.make_graph(
        nodes, "shares", [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["N", 8])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["N", 8])],
        [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()],
    )  # fmt: skip
    net = detent.load(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8))
    x = np.random.default_rng(0).standard_normal((64, 8)).astype(np.float32)
    for analyze in (True, False):
        result = net.quantize(x, analyze=analyze)
        result.network.save(tmp_path / f"{analyze}.mz")
        assert np.isfinite(result.network.run(x)["y"]).all()
    assert (tmp_path / "True.mz").read_bytes() == (tmp_path / "False.mz").read_bytes()


def test_advice_adds_to_widths_given_as_a_dict(net, images):
    samples = np.tile(images, (2, 1, 1, 1))
    by_dict = net.quantize(samples, bits={".*": "2/2"})
    assert by_dict.advice and by_dict.to_dict() == net.quantize(samples, bits=".*=2/2").to_dict()


def test_function_is_the_method(net, images):
    assert detent.quantize(net, images, weights="int4").to_dict() == net.quantize(images, weights="int4").to_dict()


def test_has_every_option_of_the_command():
    import inspect

    parameters = inspect.signature(detent.Network.quantize).parameters
    for option in _detent.quantize_options():
        assert option["name"] in parameters
        assert f"{option['name']}: {option['help']}" in detent.Network.quantize.__doc__
        assert option["help"] in detent.quantize.__doc__
    assert parameters["batch_size"].default == _detent.default_batch_size()
    assert inspect.signature(detent.Network.test).parameters["batch_size"].default == _detent.default_batch_size()


def test_several_inputs(two_inputs):
    random = np.random.default_rng(3)
    samples = [{"a": random.standard_normal((5, 2), np.float32), "b": random.standard_normal((5, 4), np.float32)}] * 20
    assert two_inputs.quantize(samples).output_sqnr_db > 20
    with pytest.raises(TypeError, match="got the inputs a, expected a, b"):
        two_inputs.quantize([{"a": samples[0]["a"]}])
    with pytest.raises(TypeError, match="dict of the inputs a, b"):
        two_inputs.quantize([samples[0]["a"]])
    with pytest.raises(detent.Error, match="got 3 samples, expected 5"):
        two_inputs.quantize([{"a": samples[0]["a"], "b": samples[0]["b"][:3]}])


def test_a_format_may_be_given(net, images):
    assert net.quantize(images, weights=detent.Format("int4")).sizes_after == net.quantize(images, weights="int4").sizes_after


class Thrown(Exception):
    pass


def failing():
    yield np.zeros((1, 3, 12, 12), np.float32)
    raise Thrown("from the loader")


WRONG = [
    ([], detent.Error, "got no samples"),
    (None, TypeError, "got NoneType"),
    ("images", TypeError, "got str"),
    ([None], TypeError, "got NoneType"),
    ([[1.0, 2.0, 3.0]], TypeError, "got 3 parts"),
    ([()], TypeError, "got 0 parts"),
    ([np.zeros((1, 3, 12), np.float32)], detent.Error, "takes float32"),
    ([np.zeros((2, 2), np.float32)], TypeError, "2 dimensions, expected 4, or 3"),
    ([np.zeros((1, 3, 12, 11), np.float32)], detent.Error, "takes float32"),
    ([np.zeros((1, 3, 12, 12), np.uint8)], TypeError, "got an array of uint8, expected float32"),
    ([np.full((1, 3, 12, 12), np.nan, np.float32)], detent.Error, "got NaN"),
    ([np.full((1, 3, 12, 12), "x")], TypeError, None),
    (failing, Thrown, "from the loader"),
    (lambda: 1 / 0, ZeroDivisionError, None),
    ([{"y": np.zeros((1, 3, 12, 12), np.float32)}], TypeError, "got the inputs y, expected x"),
]


class Pictures:
    """As a Dataset of torch is: neither an iterator nor one that ends."""

    def __init__(self, images, labels):
        self.images, self.labels = images, labels

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.images[i], int(self.labels[i])


def test_samples_as_data_sets_give_them(net, images, labels):
    expected = net.quantize(images, analyze=False).network.run(images[:4])["logits"]
    for given in ([[images]], Pictures(images, labels)):
        found = net.quantize(given, analyze=False).network
        np.testing.assert_array_equal(found.run(images[:4])["logits"], expected)
    assert net.test(Pictures(images, labels)).accuracy == 1


def test_names_as_text(net, images):
    one, other = (
        net.quantize(images, keep_float=kept, improve=passes, analyze=False).network.run(images[:4])["logits"]
        for kept, passes in (("conv1,fc", "gptq,bias_correction"), (["conv1", "fc"], ["gptq", "bias_correction"]))
    )
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(("samples", "error", "text"), WRONG)
def test_wrong_samples_raise(net, images, samples, error, text):
    with pytest.raises(error, match=text):
        net.quantize(samples)
    assert net.run(images[:1])["logits"].shape == (1, 10)  # the interpreter goes on


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"weights": "int99"}, "99"),
        ({"weights": 4}, "weights"),
        ({"improve": ["gptqq"]}, "did you mean \"gptq\""),
        ({"improve": ["report_graph"]}, "improve: got \"report_graph\""),
        ({"num_samples": 0}, "num_samples"),
        ({"calibrator": "best"}, "calibrator"),
        ({"keep_float": ["nothing"]}, "nothing"),
    ],
)
def test_wrong_options_raise(net, images, options, text):
    with pytest.raises(detent.Error, match=text):
        net.quantize(images, **options)


def test_wrong_batches_raise(net, images, tmp_path):
    for call in (
        lambda **given: net.quantize(images, **given),
        lambda **given: net.test([(images, [0] * 96)], **given),
        lambda **given: net.search(images, min_sqnr=20, **given),
        lambda **given: net.compare(images, **given),
        lambda **given: net.report(tmp_path / "page.html", images, **given),
    ):
        with pytest.raises(ValueError, match="batch_size: got 0, expected at least 1"):
            call(batch_size=0)
        with pytest.raises(ValueError, match="num_workers: got -1"):
            call(num_workers=-1)


def test_wrong_labels_raise(net, images):
    with pytest.raises(detent.Error, match="label 10, expected one less than 10"):
        net.test([(images[:1], [10])])
    with pytest.raises(detent.Error, match="label -1"):
        net.test([(images[:1], [-1])])
    with pytest.raises(detent.Error, match="2 labels of 1 samples"):
        net.test([(images[:1], [1, 2])])
    with pytest.raises(TypeError, match="pair of inputs and labels"):
        net.test([images[:1]])
    with pytest.raises(TypeError, match="labels"):
        net.test([(images[:1], np.float32([1]))])
    with pytest.raises(TypeError, match="labels.*integers from 0"):
        net.test([(images[:1], ["cat"])])


def test_warnings_reach_the_logger(net, images, caplog):
    with caplog.at_level(logging.WARNING, "detent"):
        net.quantize(images[:5])
    assert any("only 5 samples" in record.message for record in caplog.records)


def test_takes_quantizers_as_they_are(net, images, tmp_path):
    first = net.quantize(images, weights="int4")
    with pytest.raises(detent.Error):
        first.network.quantize(images)  # it is ready for integers already


def test_samples_may_be_whole_inputs(program, tmp_path):
    """A state of two layers and a rate do not begin with the batch: each dict is a sample."""
    helper, numpy_helper = onnx.helper, onnx.numpy_helper
    kinds = {"x": ["T", 4], "state": [2, 1, 4], "rate": []}
    inputs = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name, shape in kinds.items()]
    weight = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    nodes = [
        helper.make_node("ReduceSum", ["state"], ["sum"], keepdims=0),
        helper.make_node("Mul", ["sum", "rate"], ["offset"]),
        helper.make_node("MatMul", ["x", "w"], ["product"]),
        helper.make_node("Add", ["product", "offset"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes, "g", inputs, [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["T", 3])], [numpy_helper.from_array(weight, "w")]
    )
    model = tmp_path / "state.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model)
    draws = np.random.default_rng(1)
    samples = {name: draws.normal(size=(6, *[5 if size == "T" else size for size in shape])).astype(np.float32) for name, shape in kinds.items()}
    samples["rate"][:] = 2
    np.savez(tmp_path / "samples.npz", **{**samples, "rate": samples["rate"][0]})
    command = [program, "quantize", str(model), "--calibration", str(tmp_path / "samples.npz"), "--project-dir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (expected,) = tmp_path.glob("*/software/quantize/graph_module.mz")
    result = detent.load(model).quantize({name: array[i] for name, array in samples.items()} for i in range(6))
    result.network.save(tmp_path / "module.mz")
    assert (tmp_path / "module.mz").read_bytes() == expected.read_bytes()
    with pytest.raises(TypeError, match="input rate: got an array of 1 dimensions, expected 0"):
        detent.load(model).quantize([{**{name: array[0] for name, array in samples.items()}, "rate": np.ones(2, np.float32)}])


def test_outputs_may_be_objects(tmp_path):
    """Rows of which a run decides how many there are, as boxes of a detector, are no classes."""
    helper, numpy_helper = onnx.helper, onnx.numpy_helper
    weights = {"w": (5, 5), "v": (5, 4)}
    draws = np.random.default_rng(0)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["features"]),
        helper.make_node("ReduceMax", ["features"], ["scores"], axes=[2], keepdims=0),
        helper.make_node("Relu", ["scores"], ["positive"]),
        helper.make_node("NonZero", ["positive"], ["places"]),
        helper.make_node("Transpose", ["places"], ["rows"]),
        helper.make_node("GatherND", ["features", "rows"], ["objects"]),
        helper.make_node("MatMul", ["objects", "v"], ["boxes"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["N", 6, 5])],
        [helper.make_tensor_value_info("boxes", onnx.TensorProto.FLOAT, ["K", 4])],
        [numpy_helper.from_array(draws.normal(size=shape).astype(np.float32), name) for name, shape in weights.items()],
    )
    model = tmp_path / "objects.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model)
    images = draws.normal(size=(8, 6, 5)).astype(np.float32)
    quantized = detent.load(model).quantize({"x": image[None]} for image in images).network
    for image in images:
        boxes = quantized.run({"x": image[None]})["boxes"]
        assert boxes.shape[1] == 4
        assert len(boxes) <= 6


def test_a_network_of_which_only_the_body_of_a_loop_is_quantized_is_exported_so(tmp_path):
    weight = np.random.default_rng(2).standard_normal((4, 4)).astype(np.float32) / 4
    value = onnx.helper.make_tensor_value_info
    body = onnx.helper.make_graph(
        [
            onnx.helper.make_node("MatMul", ["before", "w"], ["after"], "layer"),
            onnx.helper.make_node("Identity", ["go"], ["again"]),
        ],
        "body",
        [
            value("i", onnx.TensorProto.INT64, []),
            value("go", onnx.TensorProto.BOOL, []),
            value("before", onnx.TensorProto.FLOAT, None),
        ],
        [value("again", onnx.TensorProto.BOOL, []), value("after", onnx.TensorProto.FLOAT, None)],
    )
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Loop", ["count", "", "x"], ["y"], "loop", body=body)],
        "counted",
        [value("x", onnx.TensorProto.FLOAT, [1, 4]), value("count", onnx.TensorProto.INT64, [])],
        [value("y", onnx.TensorProto.FLOAT, [1, 4])],
        [onnx.numpy_helper.from_array(weight, "w")],
    )
    path = tmp_path / "counted.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)
    inputs = {"x": np.linspace(-1, 1, 4, dtype=np.float32)[None], "count": np.array(3)}
    quantized = detent.load(path).quantize(calibration=[inputs] * 4).network
    assert quantized.is_quantized
    quantized.export(tmp_path / "quantized.onnx")
    loop = next(node for node in onnx.load(tmp_path / "quantized.onnx").graph.node if node.op_type == "Loop")
    steps = next(attribute.g for attribute in loop.attribute if attribute.name == "body").node
    assert "QuantizeLinear" in [step.op_type for step in steps]


def test_weights_alone_need_no_samples(net, tmp_path):
    result = net.quantize(weights="int4", activations="float32")
    layers = [node for node in result.network.nodes if "weight" in node.formats]
    assert layers and all(set(node.formats) == {"weight"} for node in layers)
    assert result.sizes_after.weight_bytes < result.sizes_before.weight_bytes / 6
    again = detent.quantize(net, weights="int4", activations="float32", analyze=False)
    for name, folder in (("a.mz", result.network), ("b.mz", again.network)):
        folder.save(tmp_path / name)
    assert (tmp_path / "a.mz").read_bytes() == (tmp_path / "b.mz").read_bytes()


@pytest.mark.parametrize("options", [{}, {"activations": "float32", "improve": ["gptq"]}])
def test_others_need_samples(net, options):
    with pytest.raises(TypeError, match="calibration: got NoneType, expected samples"):
        net.quantize(weights="int4", **options)
