"""Networks: loading, running, looking inside, writing."""

from __future__ import annotations

import collections
import copy
import gc
import os
import pathlib
import pickle
import threading

import numpy as np
import pytest

import detent


def test_runs_by_name_and_without(net, images):
    by_name = net.run({"x": images[:4]})
    assert list(by_name) == net.outputs == ["logits"]
    assert by_name["logits"].shape == (4, 10)
    assert by_name["logits"].dtype == np.float32
    np.testing.assert_array_equal(net.run(images[:4])["logits"], by_name["logits"])


def test_agrees_with_onnxruntime(model, net, images):
    runtime = pytest.importorskip("onnxruntime")
    (expected,) = runtime.InferenceSession(str(model), providers=["CPUExecutionProvider"]).run(None, {"x": images})
    np.testing.assert_allclose(net.run(images)["logits"], expected, rtol=1e-4, atol=1e-5)


def test_says_what_it_takes(net):
    assert net.inputs == [detent.Input("x", "float32", ("N", 3, 12, 12))]
    assert net.name == "small"
    assert "x float32" in repr(net)
    assert "<table>" in net._repr_html_()
    assert net.sizes == detent.Sizes(1562, 6248, 32.0, 32.0)


def test_nodes_by_place_name_and_operator(net):
    nodes = net.nodes
    assert len(nodes) == len(list(nodes))
    assert nodes["conv1"].op == "conv2d"
    assert nodes["conv1"].shape == (1, 8, 12, 12)
    assert nodes["conv1"].dtype == "float32"
    assert nodes["conv1"].parameters == {"weight": (8, 3, 3, 3), "bias": (8,)}
    assert nodes["conv1"].parameter().shape == (8, 3, 3, 3)
    assert nodes["conv1"].attributes["padding"]
    assert nodes["conv1"].formats == {}
    assert [node.name for node in nodes.of("conv2d")] == ["conv1", "conv2"]
    assert nodes[0].name == "x"
    assert isinstance(nodes[1:3], detent.Nodes)
    assert isinstance(nodes[0], detent.Node)
    assert "conv1" in nodes and nodes[1] in nodes and "conv3" not in nodes
    with pytest.raises(KeyError, match="conv3; near it: conv"):
        nodes["conv3"]
    assert str(nodes[1:2]).split() == ["conv1", "conv2d", "1x8x12x12"]
    assert "conv1" in repr(nodes["conv1"]) and "Nodes" in repr(nodes)
    with pytest.raises(KeyError):
        nodes["nothing"]
    with pytest.raises(detent.Error, match="no parameter"):
        nodes["conv1"].parameter("scale")


def test_parameters_are_copies(net, images):
    before = net.run(images[:1])["logits"]
    net.nodes["fc"].parameter()[:] = 0
    np.testing.assert_array_equal(detent.Session(net).run(images[:1])["logits"], before)


def test_quantized_nodes_have_formats(net, images):
    quantized = net.quantize(images).network
    assert quantized.is_quantized and not net.is_quantized
    assert quantized.nodes["conv1"].formats["weight"].startswith("affine")


def test_shapes_may_be_fixed(tmp_path):
    import onnx
    from onnx import TensorProto, helper

    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "open",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", "length"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "open.onnx")
    assert detent.load(tmp_path / "open.onnx").inputs[0].shape == ("N", "length")
    assert detent.load(tmp_path / "open.onnx", shapes={"x": [1, 5]}).inputs[0].shape == ("N", 5)
    free = detent.load(tmp_path / "open.onnx")
    for length in (3, 8):
        assert free.run(np.zeros((2, length), np.float32))["y"].shape == (2, length)


def test_saved_and_loaded_is_the_same(net, images, tmp_path):
    quantized = net.quantize(images).network
    for packed in (True, False):
        path = tmp_path / f"{packed}.mz"
        quantized.save(path, packed=packed)
        again = detent.load(os.fspath(path))
        np.testing.assert_array_equal(again.run(images)["logits"], quantized.run(images)["logits"])
    assert (tmp_path / "True.mz").stat().st_size < (tmp_path / "False.mz").stat().st_size


def test_files_are_not_replaced_silently(net, tmp_path):
    net.save(tmp_path / "a.mz")
    net.export(tmp_path / "a.onnx")
    before = (tmp_path / "a.mz").read_bytes()
    for write in (lambda: net.save(tmp_path / "a.mz"), lambda: net.export(tmp_path / "a.onnx")):
        with pytest.raises(detent.Error, match="exists"):
            write()
    net.save(tmp_path / "a.mz", overwrite=True)
    net.export(tmp_path / "a.onnx", overwrite=True)
    assert (tmp_path / "a.mz").read_bytes() == before
    with pytest.raises(detent.Error, match="ends in .mz"):
        net.save(tmp_path / "a.onnx2")
    with pytest.raises(detent.Error, match="ends in .onnx"):
        net.export(tmp_path / "a.mz2")
    with pytest.raises(detent.Error):
        net.save("/proc/graph.mz")
    for write in (lambda: net.save(tmp_path / "no" / "a.mz"), lambda: net.export(tmp_path / "no" / "a.onnx")):
        with pytest.raises(detent.Error, match="no does not exist"):
            write()


def test_exported_model_gives_the_same(net, images, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    quantized = net.quantize(images).network
    quantized.export(tmp_path / "int8.onnx")
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.InferenceSession(tmp_path / "int8.onnx", options, providers=["CPUExecutionProvider"])
    (got,) = session.run(None, {"x": images})
    expected = quantized.run(images)["logits"]
    assert np.abs(got - expected).max() <= 0.05 * np.abs(expected).max()
    assert (got.argmax(1) == expected.argmax(1)).mean() > 0.95


@pytest.mark.parametrize(
    ("path", "error"),
    [("/nonexistent.onnx", detent.Error), (None, TypeError), (3, TypeError), (os.curdir, detent.Error)],
)
def test_what_is_no_file_raises(path, error):
    with pytest.raises(error):
        detent.load(path)


def test_what_is_no_network_raises(tmp_path):
    (tmp_path / "x.onnx").write_bytes(b"\x08\x07garbage")
    with pytest.raises(detent.Error) as caught:
        detent.load(tmp_path / "x.onnx")
    assert caught.value.file == str(tmp_path / "x.onnx")


def test_contiguous_arrays_are_not_copied(net):
    """The output of a network that gives its input back would alias it: it is copied, which the input was not."""
    from detent import _detent

    array = np.zeros((1, 3, 12, 12), np.float32)
    assert _detent.address_seen(array) == array.ctypes.data
    assert _detent.address_seen(array[:, :, ::2]) != array[:, :, ::2].ctypes.data
    read_only = array.copy()
    read_only.flags.writeable = False
    assert _detent.address_seen(read_only) == read_only.ctypes.data
    assert _detent.address_seen(memoryview(array)) == array.ctypes.data


def test_torch_tensors_are_not_copied(net, images):
    torch = pytest.importorskip("torch")
    from detent import _detent

    tensor = torch.from_numpy(images)
    assert _detent.address_seen(tensor) == tensor.data_ptr()
    np.testing.assert_array_equal(net.run(tensor)["logits"], net.run(images)["logits"])


def test_other_layouts_and_widths_are_copied(net, images):
    expected = net.run(images)["logits"]
    for array in (
        np.asfortranarray(images),
        images.astype(np.float64),
        np.stack([images, images], -1)[..., 0],
        images[::-1][::-1],
    ):
        np.testing.assert_array_equal(net.run(array)["logits"], expected)


@pytest.mark.parametrize(
    ("inputs", "error", "text"),
    [
        (None, TypeError, "got NoneType"),
        ([[1.0]], TypeError, "got list"),
        ({"x": None}, TypeError, "input x: got NoneType"),
        ({}, detent.Error, "input x is missing"),
        ({"y": np.zeros((1, 3, 12, 12), np.float32)}, detent.Error, "missing"),
        ({"x": np.zeros((1, 3, 12, 12), np.float32), "z": 1}, detent.Error, 'unknown input "z"'),
        (np.zeros((1, 3, 12, 12), np.int32), TypeError, "int32, expected float32"),
        (np.zeros((1, 3, 12, 13), np.float32), detent.Error, None),
        (np.zeros(3, np.float32), detent.Error, None),
        (np.zeros((1, 3, 12, 12), object), TypeError, None),
        (np.zeros((1, 3, 12, 12), np.complex64), TypeError, None),
    ],
)
def test_wrong_inputs_raise(net, images, inputs, error, text):
    with pytest.raises(error, match=text):
        net.run(inputs)
    assert net.run(images[:1])["logits"].shape == (1, 10)


def test_outputs_into_arrays(net, images):
    session = detent.Session(net, threads=1)
    out = np.empty((4, 10), np.float32)
    assert session.run(images[:4], out={"logits": out})["logits"] is out
    np.testing.assert_array_equal(out, net.run(images[:4])["logits"])
    for wrong in (np.empty((4, 9), np.float32), np.empty((4, 10)), np.empty((10, 4), np.float32).T):
        with pytest.raises(TypeError, match="out, logits"):
            session.run(images[:4], out={"logits": wrong})
    frozen = np.empty((4, 10), np.float32)
    frozen.flags.writeable = False
    with pytest.raises(TypeError):
        session.run(images[:4], out={"logits": frozen})


def test_outputs_that_are_not_there_raise(net, images):
    with pytest.raises(detent.Error, match='out: unknown output "logit": did you mean "logits"'):
        net.run(images[:1], out={"logit": np.zeros((1, 10), np.float32)})
    with pytest.raises(TypeError, match="out: got ndarray, expected a dict"):
        net.run(images[:1], out=np.zeros((1, 10), np.float32))


def test_inputs_by_any_mapping(net, images):
    given = collections.UserDict(x=images[:1])
    np.testing.assert_array_equal(net.run(given)["logits"], net.run(images[:1])["logits"])


def test_copies_and_pickles(net):
    session = detent.Session(net)
    for one in (net, session, net.nodes, net.nodes[0]):
        assert copy.copy(one) is one and copy.deepcopy(one) is one
        with pytest.raises(TypeError, match=f"{type(one).__name__}: is not pickled: "):
            pickle.dumps(one)
    assert repr(session) == f"<detent.Session of {net!r}>"
    with pytest.raises(TypeError, match=r"save\(\) writes it"):
        pickle.dumps(net)
    with pytest.raises(TypeError, match="make one of the network in each process"):
        pickle.dumps(detent.Session(net))


def test_threads_of_a_session(net, images):
    expected = net.run(images)["logits"]
    for threads in (1, 2, None):
        np.testing.assert_array_equal(detent.Session(net, threads=threads).run(images)["logits"], expected)
    for threads in (0, -1, 5000):
        with pytest.raises(ValueError, match="threads"):
            detent.Session(net, threads=threads)


def test_process_threads():
    before = detent.num_threads()
    detent.set_num_threads(1)
    assert detent.num_threads() == 1
    detent.set_num_threads(before)
    with pytest.raises(detent.Error, match="threads: got 0"):
        detent.set_num_threads(0)


def test_several_threads_at_once(net, images):
    session = detent.Session(net, threads=1)
    expected = [session.run(images[i : i + 8])["logits"] for i in range(0, 96, 8)]
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(20):
                for i in range(12):
                    np.testing.assert_array_equal(session.run(images[8 * i : 8 * i + 8])["logits"], expected[i])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_quantizing_twice_at_once(net, images):
    expected = net.quantize(images, weights="int4").to_dict()
    results: list[dict] = []
    threads = [
        threading.Thread(target=lambda: results.append(net.quantize(images, weights="int4").to_dict())) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected, expected]


def resident_bytes() -> int:
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_calls_leak_nothing(net, images):
    session = detent.Session(net, threads=1)
    int4 = detent.Format("int4")

    def calls() -> None:
        for _ in range(10_000):
            session.run({"x": images[:1]})
            int4.fake_quantize(images[0])

    calls()
    gc.collect()
    before = resident_bytes()
    calls()
    gc.collect()
    assert resident_bytes() - before < 1 << 20, "each call may keep no 52 bytes"


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32, np.uint64])
def test_unsigned_integers(dtype: type[np.unsignedinteger], tmp_path: pathlib.Path) -> None:
    from onnx import TensorProto, helper

    kind = {np.uint16: TensorProto.UINT16, np.uint32: TensorProto.UINT32, np.uint64: TensorProto.UINT64}[dtype]
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "x"], ["y"])],
        "sums",
        [helper.make_tensor_value_info("x", kind, [3])],
        [helper.make_tensor_value_info("y", kind, [3])],
    )
    onnx_file = tmp_path / "sums.onnx"
    onnx_file.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8).SerializeToString()
    )
    x = np.array([1, 2, 65535, 0], dtype=dtype)
    net = detent.load(onnx_file)
    np.testing.assert_array_equal(net.run({"x": x[:3]})["y"], (x + x)[:3])
    np.testing.assert_array_equal(net.run({"x": x[::-1][:3]})["y"], (x + x)[::-1][:3])
    if dtype is np.uint64:
        with pytest.raises(detent.Error, match="input x: got 18446744073709551615"):
            net.run({"x": np.full(3, 2**64 - 1, dtype)})
