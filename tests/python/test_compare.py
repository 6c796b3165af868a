"""Comparisons of formats and methods are those of the command."""

from __future__ import annotations

import inspect
import json
import pathlib
import subprocess

import numpy as np
import pytest
from test_studies import page_results

import detent
from detent import _detent

OPTIONS = {"formats": ["int8", "int4", "nvfp4/fp8_e4m3fn"], "methods": ["none", "bias_correction"], "num_samples": 48}
FLAGS = ["--formats", "int8,int4,nvfp4/fp8_e4m3fn", "--methods", "none,bias_correction", "--num-samples", "48"]


def without_times(found: dict) -> dict:
    """What both must agree on: the clock and the command line are each one's own."""
    for row in (found["float"], *found["networks"]):
        row.pop("latency_ms", None)
        row.pop("command", None)
    return found


def command(program, folder: pathlib.Path, *arguments) -> dict:
    done = subprocess.run([program, "compare", *map(str, arguments), "--project-dir", folder, *FLAGS],
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    (path,) = folder.glob("*/software/compare/comparison.json")
    return without_times(json.loads(path.read_text()))


@pytest.mark.parametrize("labelled", [False, True])
def test_finds_what_the_command_does(program, model, net, images, labels, tmp_path, labelled):
    given: dict = {"calibration": images}
    if labelled:
        labels = labels.copy()
        labels[[47, 95]] = 9  # the command counts classes by the largest label
        halves = [(images[part], labels[part]) for part in (slice(0, 48), slice(48, 96))]
        for name, (x, y) in zip(("train", "test"), halves, strict=True):
            np.savez(tmp_path / f"{name}.npz", inputs=x, labels=y)
        expected = command(program, tmp_path / "command", model, "npz", "--data-dir", tmp_path)
        given = {"calibration": [halves[0]], "test": [halves[1]]}
    else:
        np.save(tmp_path / "samples.npy", images)
        expected = command(program, tmp_path / "command", model, "--calibration", tmp_path / "samples.npy")
    result = net.compare(**given, **OPTIONS, folder=tmp_path / "ours", report=tmp_path / "page.html")
    assert isinstance(result, detent.ComparisonResult)
    assert without_times(json.loads(json.dumps(result.to_dict()))) == expected
    assert without_times(json.loads((tmp_path / "ours" / "comparison.json").read_text())) == expected
    assert ("accuracy" in expected["float"]) == labelled
    shown = page_results(tmp_path / "page.html")
    assert without_times(shown["comparison"]) == expected
    assert len(shown["pareto"]["points"]) == len(result.networks)
    assert all(isinstance(row, detent.ComparedNetwork) for row in result.networks)
    assert [row.weight_bytes for row in result.front] == sorted(row.weight_bytes for row in result.front)
    assert {row.method for row in result.networks} == {"none", "bias_correction"}


def test_divides_samples_with_labels(net, images, labels):
    result = net.compare([(images, labels)], formats=["int8"], methods=["none"])
    assert (result.reference["samples"], result.reference["accuracy"]) == (48, 1)


def test_rows_are_made_by_quantize(net, images):
    result = detent.compare(net, images, **OPTIONS)
    for row in result.networks:
        made = net.quantize(images, **row.options, analyze=False)
        assert made.sizes_after.weight_bytes == row.weight_bytes
        assert made.sizes_after.bits_per_weight == row.weight_bits
        difference = made.network.run(images)["logits"] - net.run(images)["logits"]
        assert np.isfinite(difference).all() and difference.any()


def test_is_shown(net, images):
    result = net.compare(images, **OPTIONS)
    assert "bits a weight" in str(result) and "nvfp4" in str(result)
    assert result._repr_svg_().startswith("<?xml") and ">bytes<" in result._repr_svg_()
    assert result._repr_html_().startswith("<table>") and "<svg" in result._repr_html_()
    pandas = pytest.importorskip("pandas")
    frame = result.frame()
    assert isinstance(frame, pandas.DataFrame) and list(frame["weights"]) == [row.weights for row in result.networks]


def test_goes_on_with_more_formats(net, images, tmp_path):
    first = net.compare(images, formats=["int8"], methods=["none"], folder=tmp_path)
    with pytest.raises(detent.Error, match="holds a comparison"):
        net.compare(images, formats=["int8"], methods=["none"], folder=tmp_path)
    with pytest.raises(detent.Error, match="other settings"):
        net.compare(images, formats=["int8"], methods=["none"], num_samples=8, folder=tmp_path, resume=True)
    more = net.compare(images, formats=["int8", detent.Format("int4")], methods="none", folder=tmp_path, resume=True)
    assert more.networks[0].to_dict() == first.networks[0].to_dict() | {"on_front": more.networks[0].on_front}
    assert len(more.networks) == 2
    assert net.compare(images, formats=["int4"], methods=["none"], folder=tmp_path, overwrite=True).missing == 0


def test_ends_in_time(net, images, tmp_path):
    result = net.compare(images, time="0.000001s", folder=tmp_path)
    assert (len(result.networks), result.missing) == (0, 21)
    assert net.compare(images, formats=["int8"], methods=["none"], folder=tmp_path, resume=True).missing == 0


def test_says_what_cannot_be(net, images):
    result = net.compare(images, formats=["nvfp4", "int4"], methods=["none", "signround"])
    (impossible,) = [row for row in result.networks if row.obstacle]
    assert (impossible.weights, impossible.method) == ("nvfp4", "signround")
    assert set(impossible.to_dict()) == {"weights", "activations", "method", "obstacle"}
    assert "follow" in impossible.obstacle and impossible.obstacle[:20] in result._repr_html_()


def test_compares_with_an_accumulator(net, images):
    wide, narrow = (
        net.compare(images, formats=["int8"], methods=["none"], accumulator=bits).networks[0] for bits in ("int32", "int10")
    )
    assert narrow.options["accumulator"] == "int10"
    assert narrow.sqnr_db < wide.sqnr_db - 1


def test_judges_by_other_samples(net, images, labels):
    result = net.compare(images, test=[(images[:40], labels[:40])], formats=["int8"], methods=["none"], eval_samples=30)
    assert result.reference["accuracy"] == 1
    assert (result.networks[0].samples, result.reference["samples"]) == (30, 30)
    assert 0 <= result.networks[0].accuracy <= 1


def test_has_every_option_of_the_command():
    parameters = inspect.signature(detent.Network.compare).parameters
    for option in _detent.compare_options():
        assert option["name"] in parameters
        assert f"{option['name']}: {option['help']}" in detent.compare.__doc__


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"formats": ["int99"]}, "int99"),
        ({"formats": []}, "expected a format"),
        ({"methods": ["gptqq"]}, 'did you mean "gptq"'),
        ({"prepare": ["fold"]}, "fold"),
        ({"time": "soon"}, "soon"),
        ({"eval_samples": 0}, "eval_samples"),
        ({"num_samples": -1}, "num_samples"),
        ({"resume": True}, "folder"),
        ({"resume": True, "folder": "nowhere"}, "resume"),
        ({"report": "page.txt"}, "html"),
    ],
)
def test_wrong_comparisons_raise(net, images, tmp_path, monkeypatch, options, text):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(detent.Error, match=text):
        net.compare(images, **options)


def test_a_quantized_network_is_not_compared(net, images):
    quantized = net.quantize(images, analyze=False).network
    with pytest.raises(detent.Error, match="quantized already"):
        quantized.compare(images)
