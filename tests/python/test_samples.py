"""Samples in the forms in which torch, Hugging Face, pandas and scikit-learn give them."""

from __future__ import annotations

from collections import UserDict

import numpy as np
import pytest

import detent


@pytest.fixture(scope="module")
def pair() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(3)
    return random.standard_normal((12, 2)).astype(np.float32), random.standard_normal((12, 4)).astype(np.float32)


@pytest.fixture(scope="module")
def classes(two_inputs: detent.Network, pair: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    return two_inputs.run(pair)["logits"].argmax(axis=1)


def test_several_inputs_in_any_form_are_the_same(two_inputs, pair, classes, tmp_path):
    a, b = pair
    both = {"a": a, "b": b}
    forms = {
        "batches of dicts": [both], "one dict": both, "one tuple": pair, "tuples": [(a[i], b[i]) for i in range(12)],
        "pairs": [(both, classes)], "tuples and labels": [(a, b, classes)], "tuple in a pair": [((a, b), classes)],
        "one pair": (both, classes), "labels in the dict": [{**both, "labels": classes}],
        "another mapping": [UserDict(both)],
    }  # fmt: skip
    written = set()
    for name, form in forms.items():
        path = tmp_path / f"{name}.mz"
        two_inputs.quantize(form, analyze=False).network.save(path)
        written.add(path.read_bytes())
    assert len(written) == 1
    for name, form in forms.items():
        if name in ("batches of dicts", "one dict", "one tuple", "tuples", "another mapping"):
            with pytest.raises(TypeError, match="expected a pair of inputs and labels"):
                two_inputs.test(form)
        else:
            assert two_inputs.test(form).accuracy == 1, name


def test_runs_a_tuple(two_inputs, pair):
    expected = two_inputs.run({"a": pair[0], "b": pair[1]})["logits"]
    for form in (pair, list(pair)):
        np.testing.assert_array_equal(two_inputs.run(form)["logits"], expected)
        np.testing.assert_array_equal(two_inputs.values(form, ["product"])["product"], expected)
    with pytest.raises(TypeError, match="got tuple, expected a tuple or a dict of the inputs a, b"):
        two_inputs.run((pair[0],))


def test_inputs_and_labels_as_one_pair(net, images, labels):
    for form in ((images, labels), (images, labels.tolist()), (images, labels[:, None])):
        if np.ndim(form[1]) == 1:
            assert net.test(form).accuracy == 1
        else:
            assert net.test([form]).accuracy == 1
    assert net.quantize((images, labels), analyze=False).network.is_quantized
    with pytest.raises(TypeError, match=r"labels: got an array of shape \[96, 10\], expected one integer a sample"):
        net.test([(images, np.eye(10, dtype=np.int64)[labels])])


def test_frames():
    pandas = pytest.importorskip("pandas")
    onnx = pytest.importorskip("onnx")
    values = np.random.default_rng(0).standard_normal((30, 2))
    frame = pandas.DataFrame(values, columns=["a", "b"])
    weight = onnx.numpy_helper.from_array(np.float32([[1, -1], [0.5, 2]]), "w")

    def network(nodes, inputs):
        float32 = onnx.TensorProto.FLOAT
        infos = [onnx.helper.make_tensor_value_info(name, float32, ["N", size]) for name, size in inputs]
        result = onnx.helper.make_tensor_value_info("y", float32, ["N", 2])
        graph = onnx.helper.make_graph(nodes, "frames", infos, [result], [weight])
        return detent.load(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8))

    product = onnx.helper.make_node("MatMul", ["x", "w"], ["y"])
    join = onnx.helper.make_node("Concat", ["b", "a"], ["x"], axis=1)
    whole = network([product], [("x", 2)])
    columns = network([join, product], [("b", 1), ("a", 1)])
    expected = whole.run(values)["y"]
    np.testing.assert_array_equal(whole.run(frame)["y"], expected)
    np.testing.assert_array_equal(whole.run({"x": frame})["y"], expected)
    np.testing.assert_array_equal(columns.run(frame)["y"], whole.run(values[:, ::-1])["y"])
    classes = pandas.Series(expected.argmax(axis=1))
    for form in ((frame, classes), [(frame, classes)]):
        assert whole.test(form).accuracy == 1
    for net in (whole, columns):
        assert net.quantize(frame, analyze=False).network.is_quantized
    np.testing.assert_array_equal(
        detent.Format("int4").fake_quantize(frame["a"]), detent.Format("int4").fake_quantize(values[:, 0])
    )


def test_models_in_memory(model, net, images):
    onnx = pytest.importorskip("onnx")
    for given in (model.read_bytes(), onnx.load(str(model))):
        np.testing.assert_array_equal(detent.load(given).run(images)["logits"], net.run(images)["logits"])
    fixed = detent.load(model.read_bytes(), shapes={"x": [1, 3, 12, 12]})
    assert fixed.inputs[0].shape == ("N", 3, 12, 12)
    with pytest.raises(detent.Error, match="^model in memory: "):
        detent.load(b"no model")
    with pytest.raises(TypeError, match="got bytes, expected a file of parameters, as model is given"):
        detent.load(model.read_bytes(), model="resnet20")


def test_words_of_wrong_arguments(net, images):
    with pytest.raises(TypeError, match=r"quantize\(\) got an unexpected keyword argument 'weight': did you mean 'weights'"):
        net.quantize(images, weight="int4")
    with pytest.raises(TypeError, match='weights: got type, expected a format, such as "int8"'):
        net.quantize(images, weights=np.int8)
    with pytest.raises(TypeError, match=r"weights: got list of type, expected a list of formats"):
        net.search(images, weights=["int8", np.int8], max_bits=5)
    assert net.search(images, max_bits=5, evaluations=2, time=60.0).evaluations > 0


def test_a_format_of_a_format_is_the_same():
    int4 = detent.Format("int4")
    assert detent.Format(int4) == int4
