"""Parameters in files, in built-in models."""

from __future__ import annotations

import json
import logging
import pathlib
import struct
import subprocess

import numpy as np
import pytest

import detent


def write_safetensors(path: pathlib.Path, tensors: dict[str, np.ndarray]) -> pathlib.Path:
    header: dict[str, dict] = {}
    data = b""
    for name, value in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": [len(data), len(data) + value.nbytes]}
        data += value.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


@pytest.fixture
def parameters() -> dict[str, np.ndarray]:
    random = np.random.default_rng(4)
    return {"l1.weight": random.standard_normal((2, 4), np.float32), "l1.bias": random.standard_normal(2, np.float32)}


def expected(parameters: dict[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    return np.maximum(x.reshape(len(x), -1) @ parameters["l1.weight"].T + parameters["l1.bias"], 0)


@pytest.mark.parametrize("prefix", ["", "module.", "model."])
def test_loads_safetensors(parameters, tmp_path, prefix):
    path = write_safetensors(tmp_path / "tiny.safetensors", {prefix + name: value for name, value in parameters.items()})
    net = detent.load(path, model="toy_tiny")
    x = np.random.default_rng(5).standard_normal((3, 1, 2, 2)).astype(np.float32)
    np.testing.assert_allclose(next(iter(net.run(x).values())), expected(parameters, x), rtol=1e-5, atol=1e-6)
    assert net.name == "toy_tiny"
    quantized = net.quantize(x, analyze=False).network
    assert quantized.is_quantized


def test_loads_checkpoints_of_torch(parameters, tmp_path):
    torch = pytest.importorskip("torch")
    state = {name: torch.from_numpy(value) for name, value in parameters.items()}
    x = np.ones((1, 1, 2, 2), np.float32)
    for name, content, legacy in (("a.pth", state, True), ("b.th", {"state_dict": state, "epoch": 3}, True), ("c.pt", state, False)):
        torch.save(content, tmp_path / name, _use_new_zipfile_serialization=not legacy)
        net = detent.load(tmp_path / name, model="toy-tiny")
        np.testing.assert_allclose(next(iter(net.run(x).values())), expected(parameters, x), rtol=1e-5, atol=1e-6)


def test_other_samples_and_classes(tmp_path):
    tensors = {"l1.weight": np.ones((5, 12), np.float32), "l1.bias": np.zeros(5, np.float32)}
    path = write_safetensors(tmp_path / "wide.safetensors", tensors)
    with pytest.raises(detent.Error, match=r"(?s)got shape \[5, 12\], expected \[2, 4\].*classes") as raised:
        detent.load(path, model="toy_tiny")
    assert "wide.safetensors" in str(raised.value)
    net = detent.load(path, model="toy_tiny", shapes={"x": [1, 3, 2, 2]}, classes=5)
    np.testing.assert_array_equal(next(iter(net.run(np.ones((2, 3, 2, 2), np.float32)).values())), np.full((2, 5), 12))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "name the model"),
        ({"model": "toy_tinny"}, 'did you mean "toy_tiny"'),
        ({"model": "toy"}, "missing"),
        ({"model": "toy_tiny", "shapes": {"y": [1, 1, 2, 2]}}, "unknown input"),
        ({"model": "toy_tiny", "shapes": {"x": [4]}}, "expected a batch"),
        ({"model": "toy_tiny", "classes": 0}, "classes: got 0"),
        ({"model": "toy_convnet", "shapes": {"x": [1, 3, 1, 1]}}, "does not fit"),
        ({"classes": 3}, "without a model"),
    ],
)
def test_wrong_parameters_raise(parameters, tmp_path, options, text):
    path = write_safetensors(tmp_path / "tiny.safetensors", parameters)
    with pytest.raises(detent.Error, match=text):
        detent.load(path, **options)


def test_damaged_files_raise(parameters, tmp_path, images):
    path = write_safetensors(tmp_path / "tiny.safetensors", parameters)
    (tmp_path / "cut.safetensors").write_bytes(path.read_bytes()[:-1])
    (tmp_path / "empty.pth").write_bytes(b"")
    np.save(tmp_path / "x.npy", images)
    for name, text in (("cut.safetensors", "cut"), ("empty.pth", "is empty"), ("x.npy", "NumPy array"), ("none.pth", "none.pth")):
        with pytest.raises(detent.Error, match=text):
            detent.load(tmp_path / name, model="toy_tiny")


def test_a_whole_network_of_another_name_is_taken(model, caplog):
    with caplog.at_level(logging.WARNING, logger="detent"):
        net = detent.load(model, model="toy_tiny")
    assert net.outputs == ["logits"]
    assert 'not the model "toy_tiny"' in caplog.text


def test_faults_are_those_of_the_command(program, parameters, tmp_path):
    path = write_safetensors(tmp_path / "tiny.safetensors", {"l1.weight": parameters["l1.weight"], "extra": parameters["l1.bias"]})
    done = subprocess.run([program, "test", "toy_tiny", "toy_tiny", "--load", path],
                          capture_output=True, text=True, check=False)  # fmt: skip
    with pytest.raises(detent.Error) as raised:
        detent.load(path, model="toy_tiny")
    for line in str(raised.value).partition(" (it was built")[0].splitlines():
        assert line.strip() in done.stderr
