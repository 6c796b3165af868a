"""Arguments of the wrong kind, in each place of each public function."""

from __future__ import annotations

import inspect
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import detent

WRONG = [
    None, "wrong", b"x", [], {}, object(), 1.5, -1, True, [None], [1], {1: 2}, np.float16(1), 2**70, float("nan"),
    np.array([None]), lambda: 1,
]  # fmt: skip


@pytest.fixture(scope="module")
def calls(
    net: detent.Network, model: pathlib.Path, images: np.ndarray, labels: np.ndarray, language_folder: pathlib.Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]]:  # fmt: skip
    folder = tmp_path_factory.mktemp("wrong")
    few, int4 = images[:16], detent.Format("int4")
    language = detent.load(language_folder)
    tokenizer = language.tokenizer
    return {
        "load": (detent.load, (model,), {}),
        "Session": (detent.Session, (net,), {}),
        "Session.run": (detent.Session(net, threads=1).run, (few,), {}),
        "run": (net.run, (few,), {}),
        "quantize": (net.quantize, (few,), {"analyze": False}),
        "test": (net.test, ([(few, labels[:16])],), {}),
        "values": (net.values, (few[:1],), {}),
        "report": (net.report, (folder / "page.html",), {"overwrite": True}),
        "search": (net.search, (few,), {"evaluations": 1, "eval_samples": 4}),
        "compare": (net.compare, (few,), {"formats": ["int8"], "methods": ["none"]}),
        "save": (net.save, (folder / "net.mz",), {"overwrite": True}),
        "export": (net.export, (folder / "net.onnx",), {"overwrite": True}),
        "generate": (language.generate, ("abc",), {"max_tokens": 1}),
        "generate_batch": (language.generate_batch, (["abc"],), {"max_tokens": 1}),
        "perplexity": (language.perplexity, (), {"ids": np.arange(64) % 50, "window": 32}),
        "Format": (detent.Format, ("int4",), {}),
        "fake_quantize": (int4.fake_quantize, (few,), {}),
        "encode": (int4.encode, (few,), {}),
        "error": (int4.error, (few,), {}),
        "Tokenizer": (detent.Tokenizer, (language_folder,), {}),
        "Tokenizer.encode": (tokenizer.encode, ("a",), {}),
        "Tokenizer.decode": (tokenizer.decode, ([1],), {}),
        "Tokenizer.apply_chat_template": (
            tokenizer.apply_chat_template, ([{"role": "user", "content": "a"}],), {"chat_template": "x"},
        ),
        "set_num_threads": (detent.set_num_threads, (detent.num_threads(),), {}),
    }  # fmt: skip


NAMES = [
    "load", "Session", "Session.run", "run", "quantize", "test", "values", "report", "search", "compare", "save",
    "export", "generate", "generate_batch", "perplexity", "Format", "fake_quantize", "encode", "error", "Tokenizer",
    "Tokenizer.encode", "Tokenizer.decode", "Tokenizer.apply_chat_template", "set_num_threads",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_arguments_of_the_wrong_kind_are_named(calls, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # "wrong" is a folder to some of them
    function, arguments, options = calls[name]
    threads = detent.num_threads()
    parameters = [p for p in inspect.signature(function).parameters.values() if p.kind != p.VAR_KEYWORD]
    for place, parameter in enumerate(parameters):
        for wrong in WRONG:
            given, keywords = list(arguments), dict(options)
            if place < len(given):
                given[place] = wrong
            else:
                keywords[parameter.name] = wrong
            try:
                result = function(*given, **keywords)
                if isinstance(result, detent.Generation):
                    list(result)
            except detent.Error as error:
                assert "--" not in str(error)
            except (TypeError, ValueError) as error:
                text = str(error)
                assert parameter.name in text or text.startswith("input x: got "), (parameter.name, wrong, text)
                assert "incompatible function arguments" not in text
            except OSError as error:
                assert error.filename, (parameter.name, wrong)
    detent.set_num_threads(threads)


def test_numbers_of_numpy_are_numbers(net, images):
    result = net.quantize(images, analyze=np.False_, seed=np.int64(3), num_samples=np.int32(16), num_sigma=None)
    assert result.output_sqnr_db is None
    with pytest.raises(ValueError, match="seed: got 1180591620717411303424, expected an integer of 64 bits"):
        net.quantize(images, seed=2**70)


def test_sizes_of_inputs_are_lists_of_integers(model, tmp_path):
    for wrong in ({"x": 3}, {"x": None}, {"x": "abc"}, {"x": ["a"]}, {"x": [1.5, 3, 12, 12]}, {3: [1]}):
        with pytest.raises(TypeError, match="^shapes"):
            detent.load(model, shapes=wrong)
    graph = tmp_path / "net.mz"
    detent.load(model).save(graph)
    for path in (model, graph):
        for sizes in ([1, 3, -1, 12], [-1, 3, 12, 12], [0, 3, 12, 12], [1, 3, 12]):
            with pytest.raises(detent.Error, match=r"fits float32 \[N, 3, 12, 12\] with sizes above 0"):
                detent.load(path, shapes={"x": sizes})


def test_faults_say_which_keyword_helps(net, images):
    with pytest.raises(detent.Error, match='^names: unknown value "relu": did you mean "relu1"') as unknown:
        net.values(images[:1], ["relu"])
    assert unknown.value.key == "names"
    quantized = net.quantize(images, analyze=False).network
    for call in (quantized.search, quantized.compare, quantized.quantize):
        with pytest.raises(detent.Error, match=r"quantized already.*keep_formats=False"):
            call(images)
    with pytest.raises(detent.Error, match="only NaN was seen, which infinite samples and overflow lead to"):
        net.quantize(np.full_like(images, np.inf))


def test_arrays_that_are_none_say_of_what_they_are(net, images):
    for array, words in (
        (images.astype(">f4"), "ndarray of >f4, expected an array in memory"),
        (images.astype(object), "ndarray of object, expected an array in memory"),
        (images.astype(complex), "ndarray of complex128, expected an array of floats"),
        (images.tolist(), "list, expected an array"),
    ):
        with pytest.raises(TypeError, match=f"input x: got {words}"):
            net.run(array)
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match=r"input x: got Tensor of torch.float32 on meta, expected an array in memory"):
        net.run(torch.zeros(1, 3, 12, 12, device="meta"))
