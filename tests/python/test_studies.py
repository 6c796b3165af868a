"""Values inside, pages and searches are those of the commands."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess

import numpy as np
import pytest

import detent
from detent import _detent

ABOUT = ("schema", "schema_version", "command", "version", "warnings")


def page_results(path: pathlib.Path) -> dict:
    """What a page shows, but for what names a run."""
    text = path.read_text()
    (data,) = re.findall(r'<script[^>]*application/json[^>]*>(.*?)</script>', text, re.S)
    results = json.loads(data)
    return {key: value for key, value in results.items() if key not in (*ABOUT, "configuration", "graph", "passes", "search_options")}


def run(program, *arguments) -> dict:
    done = subprocess.run([program, *map(str, arguments), "--json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {key: value for key, value in json.loads(done.stdout).items() if key not in ABOUT}


@pytest.mark.parametrize("flags", [[], ["--as-integers"], ["--before-quantization"], ["--engine", "reference"], ["--engine", "simulation"]])
def test_values_are_those_of_the_command(program, net, images, tmp_path, flags):
    quantized = net.quantize(images, weights="int4", analyze=False).network
    quantized.save(tmp_path / "net.mz")
    np.save(tmp_path / "x.npy", images[:4])
    names = ["relu1", "conv2"]
    run(program, "run", tmp_path / "net.mz", "--input", f"x={tmp_path / 'x.npy'}", "--output-dir", tmp_path / "out",
        *(part for name in names for part in ("--value", name)), *flags)  # fmt: skip
    options = {
        "as_integers": "--as-integers" in flags,
        "before_quantization": "--before-quantization" in flags,
        "engine": flags[1] if "--engine" in flags else None,
    }
    values = quantized.values(images[:4], names, **options)
    assert list(values) == names
    for name in names:
        expected = np.load(tmp_path / "out" / f"{name}.npy")
        assert values[name].dtype == expected.dtype
        np.testing.assert_array_equal(values[name], expected)


def test_values_of_all_nodes(net, images):
    values = net.values(images[:2])
    assert {"conv1", "relu1", "conv2", "relu2", "fc"} <= set(values)
    np.testing.assert_array_equal(values["relu1"], np.maximum(values["conv1"], 0))
    np.testing.assert_array_equal(values["fc"], net.run(images[:2])["logits"])
    for node in net.nodes:
        if node.name in values:
            assert values[node.name].shape[1:] == node.shape[1:]


def test_wrong_values_raise(net, images):
    with pytest.raises(detent.Error, match='did you mean "relu1"'):
        net.values(images, ["relu"])
    with pytest.raises(TypeError, match="names: got str"):
        net.values(images, "relu1")
    with pytest.raises(detent.Error, match="engine"):
        net.values(images, ["relu1"], engine="slow")
    with pytest.raises(detent.Error, match="integers"):
        net.values(images, ["relu1"], engine="integers")


def test_report_is_the_page_of_the_command(program, model, net, images, labels, tmp_path):
    np.savez(tmp_path / "samples.npz", inputs=images, labels=labels)
    page = tmp_path / "command.html"
    run(program, "quantize", model, "--calibration", tmp_path / "samples.npz", "--project-dir", tmp_path, "--report", page)
    # Half of the samples calibrate there: `detent search` divides them likewise.
    expected = page_results(page)
    result = net.quantize(images, report=tmp_path / "module.html")
    found = page_results(tmp_path / "module.html")
    assert set(found) == set(expected) - {"accuracy"}
    assert found["sizes"] == expected["sizes"]
    assert [node["name"] for node in found["network"]["nodes"]] == [node["name"] for node in expected["network"]["nodes"]]

    np.save(tmp_path / "inputs.npy", images)
    run(program, "quantize", model, "--calibration", tmp_path / "inputs.npy", "--project-dir", tmp_path / "other",
        "--report", tmp_path / "unlabelled.html")  # fmt: skip
    assert found == page_results(tmp_path / "unlabelled.html")
    assert found["layerwise_error"] == result.layers


def test_report_of_a_network(program, net, images, labels, tmp_path):
    quantized = net.quantize(images, weights="int4", analyze=False).network
    quantized.report(tmp_path / "weights.html")
    assert set(page_results(tmp_path / "weights.html")) == {"sizes", "network"}
    pairs = [(images[i : i + 8], labels[i : i + 8]) for i in range(0, 96, 8)]
    quantized.report(tmp_path / "labelled.html", pairs)
    (row,) = page_results(tmp_path / "labelled.html")["accuracy"]
    assert row == {"network": "quantized", **quantized.test(pairs).to_dict()}
    quantized.report(tmp_path / "samples.html", images)
    found = page_results(tmp_path / "samples.html")
    assert any("histogram" in operand for node in found["network"]["nodes"] for operand in node.get("operands", []))
    with pytest.raises(detent.Error, match="exists"):
        quantized.report(tmp_path / "samples.html")
    quantized.report(tmp_path / "samples.html", overwrite=True)
    with pytest.raises(detent.Error, match="html"):
        quantized.report(tmp_path / "page.txt")
    (tmp_path / "note.html").write_text("no report")
    with pytest.raises(detent.Error, match="no report"):
        quantized.report(tmp_path / "note.html", overwrite=True)


SEARCH = {"weights": ["int2", "int4", "int8"], "evaluations": 6, "max_bits": 6, "improve": "none", "weight_rule": "nearest"}
SEARCH_FLAGS = ["--weights", "int2,int4,int8", "--evaluations", "6", "--max-bits", "6", "--improve", "none", "--weight-rule", "nearest"]


def searched(path: pathlib.Path) -> dict:
    found = json.loads(path.read_text())
    assert found["float"]["sqnr_db"] == "inf", "JSON has no infinity"
    found["float"]["sqnr_db"] = float("inf")
    return found


def test_search_finds_what_the_command_does(program, model, net, images, tmp_path):
    np.save(tmp_path / "samples.npy", images)
    page = tmp_path / "command.html"
    run(program, "search", model, "--calibration", tmp_path / "samples.npy", "--project-dir", tmp_path, *SEARCH_FLAGS, "--report", page)
    (folder,) = tmp_path.glob("*/software/search")
    expected = searched(folder / "search.json")
    result = net.search(images, **SEARCH, folder=tmp_path / "ours", report=tmp_path / "module.html")
    assert isinstance(result, detent.SearchResult)
    assert result.to_dict() == expected == searched(tmp_path / "ours" / "search.json")
    assert all(isinstance(point, detent.SearchPoint) for point in result.front)
    assert (tmp_path / "ours" / "best.mz").read_bytes() == (folder / "best.mz").read_bytes()
    result.network.save(tmp_path / "best.mz")
    assert result.network.sizes.weight_bytes <= net.sizes.weight_bytes
    np.testing.assert_array_equal(
        result.network.run(images)["logits"], detent.load(folder / "best.mz").run(images)["logits"]
    )
    found, shown = page_results(tmp_path / "module.html"), page_results(page)
    assert found == shown
    assert "evaluations" in str(result) and "<table>" in result._repr_html_()
    assert ">best.mz<" not in result._repr_svg_() and f">{result.best.file}<" in result._repr_svg_()
    assert net.search(images, **SEARCH).to_dict() == expected, "in a folder for temporary files"


def test_search_goes_on(net, images, tmp_path):
    net.search(images, **{**SEARCH, "evaluations": 3}, folder=tmp_path)
    with pytest.raises(detent.Error, match="holds a search"):
        net.search(images, **SEARCH, folder=tmp_path)
    with pytest.raises(detent.Error, match="other settings"):
        net.search(images, **{**SEARCH, "weights": ["int3"]}, folder=tmp_path, resume=True)
    more = net.search(images, **SEARCH, folder=tmp_path, resume=True)
    assert more.to_dict()["front"] == net.search(images, **SEARCH).to_dict()["front"]
    assert net.search(images, **SEARCH, folder=tmp_path, overwrite=True).evaluations > 0


def test_search_by_accuracy(net, images, labels):
    pairs = [(images, labels)]
    result = net.search(pairs, **{**SEARCH, "max_drop": 5})
    assert 0 <= result.best.quality["accuracy"] <= 1
    assert result.reference["accuracy"] == 1
    judged = net.search(images, validation=pairs, **{**SEARCH, "max_drop": 5})
    assert judged.best.quality["samples"] == 192, "samples of calibration after those of validation"
    assert "accuracy" in str(judged.best)
    pandas = pytest.importorskip("pandas")
    frame = result.front_frame()
    assert isinstance(frame, pandas.DataFrame) and len(frame) == len(result.front)


def test_has_every_option_of_search():
    import inspect

    parameters = inspect.signature(detent.Network.search).parameters
    for option in _detent.search_options():
        assert option["name"] in parameters
        assert f"{option['name']}: {option['help']}" in detent.Network.search.__doc__


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"strategy": "best"}, "best"),
        ({"weights": ["int99"]}, "int99"),
        ({"evaluations": 0}, "evaluations"),
        ({"max_drop": 1}, "labels"),
        ({"resume": True, "folder": "nowhere"}, "resume"),
        ({"improve": ["gptqq"]}, "gptqq"),
    ],
)
def test_wrong_searches_raise(net, images, tmp_path, monkeypatch, options, text):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(detent.Error, match=text):
        net.search(images, **options)


def test_a_quantized_network_is_not_searched(net, images):
    quantized = net.quantize(images, analyze=False).network
    with pytest.raises(detent.Error, match="quantized already"):
        quantized.search(images)
