"""Small networks, made here, and the program beside the module."""

from __future__ import annotations

import os
import pathlib
import shutil
from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tiny_llama import write_tiny_llama

import detent

CLASSES = 10



def _model(nodes: list[onnx.NodeProto], weights: dict[str, np.ndarray], inputs: list[onnx.ValueInfoProto]) -> bytes:
    graph = helper.make_graph(
        nodes,
        "small",
        inputs,
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", CLASSES])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model.SerializeToString()


def _convolutional() -> bytes:
    random = np.random.default_rng(0)

    def draw(*shape: int) -> np.ndarray:
        fan = int(np.prod(shape[1:])) or 1
        return (random.standard_normal(shape) / np.sqrt(fan)).astype(np.float32)

    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], "conv1", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"], "relu1"),
        helper.make_node("Conv", ["r1", "w2", "b2"], ["c2"], "conv2", strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c2"], ["r2"], "relu2"),
        helper.make_node("GlobalAveragePool", ["r2"], ["p"], "pool"),
        helper.make_node("Flatten", ["p"], ["f"], "flatten"),
        helper.make_node("Gemm", ["f", "w3", "b3"], ["logits"], "fc", transB=1),
    ]
    weights = {
        "w1": draw(8, 3, 3, 3), "b1": draw(8), "w2": draw(16, 8, 3, 3), "b2": draw(16), "w3": draw(CLASSES, 16),
        "b3": draw(CLASSES),
    }  # fmt: skip
    return _model(nodes, weights, [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, 12, 12])])


def _two_inputs() -> bytes:
    weight = np.random.default_rng(1).standard_normal((6, CLASSES)).astype(np.float32)
    nodes = [
        helper.make_node("Concat", ["a", "b"], ["ab"], "cat", axis=1),
        helper.make_node("MatMul", ["ab", "w"], ["logits"], "product"),
    ]
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", size]) for name, size in (("a", 2), ("b", 4))]
    return _model(nodes, {"w": weight}, inputs)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A convolutional network: x float32 [N, 3, 12, 12] -> logits [N, 10]."""
    path = tmp_path_factory.mktemp("models") / "small.onnx"
    path.write_bytes(_convolutional())
    return path


@pytest.fixture(scope="session")
def net(model: pathlib.Path) -> detent.Network:
    return detent.load(model)


@pytest.fixture(scope="session")
def two_inputs(tmp_path_factory: pytest.TempPathFactory) -> detent.Network:
    """a float32 [N, 2], b float32 [N, 4] -> logits [N, 10]."""
    path = tmp_path_factory.mktemp("models") / "two.onnx"
    path.write_bytes(_two_inputs())
    return detent.load(path)


@pytest.fixture(scope="session")
def images() -> np.ndarray:
    return np.random.default_rng(2).standard_normal((96, 3, 12, 12)).astype(np.float32)


@pytest.fixture(scope="session")
def labels(net: detent.Network, images: np.ndarray) -> np.ndarray:
    """What the network in float says: it is always right."""
    return net.run(images)["logits"].argmax(axis=1)


@pytest.fixture(scope="session")
def language_folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("language")
    write_tiny_llama(path)
    return path


@pytest.fixture(scope="session")
def program() -> str:
    path = os.environ.get("DETENT_PROGRAM") or shutil.which("detent")
    if not path:
        pytest.skip("no program detent: set DETENT_PROGRAM")
    return path


@pytest.fixture
def batches(images: np.ndarray) -> Callable[[int], list[np.ndarray]]:
    return lambda size: [images[i : i + size] for i in range(0, len(images), size)]
