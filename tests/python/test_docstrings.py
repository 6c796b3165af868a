"""The examples of all docstrings run, and give what they say."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import importlib.util
import pathlib
import sys
from typing import Any

import numpy as np
import pytest

import detent

OTHER_VALUES = (  # of networks and data that are not here
    "net.run({", "print(net.test(loader))", "net.values(images", "print(net.perplexity", "print(result)", "print(found)",
    "print(compared)", "print(net.generate", "[str(text) for text in net.generate_batch", "net.tokenizer.encode",
)  # fmt: skip


def examples() -> dict[str, list[doctest.Example]]:
    found = {}
    objects = {name: getattr(detent, name) for name in dir(detent) if callable(getattr(detent, name))}
    with contextlib.suppress(ImportError):
        torch = importlib.import_module("detent.torch")
        objects |= {f"torch.{name}": getattr(torch, name) for name in torch.__all__} | {"torch": torch.__doc__}
    objects["detent"] = detent.__doc__
    parser = doctest.DocTestParser()
    for name, value in objects.items():
        if isinstance(value, str):
            found[name] = parser.get_examples(value)
        else:
            found |= {test.name: test.examples for test in doctest.DocTestFinder().find(value, name)}
    return {name: lines for name, lines in found.items() if lines}


EXAMPLES = examples()


def test_what_is_called_has_an_example():
    called = {"load", "from_torch", "Network.run", "Network.quantize", "Network.test", "Network.values", "Network.search",
              "Network.compare", "Network.generate", "Network.generate_batch", "Network.perplexity", "Network.report",
              "Network.save", "Network.export", "Session", "Format", "Format.fake_quantize", "Format.encode",
              "Format.error", "Tokenizer", "Error", "quantize", "compare", "set_num_threads", "format_names"}  # fmt: skip
    if importlib.util.find_spec("torch"):
        called |= {"torch", "torch.fake_quantize", "torch.quantize_", "torch.FakeQuantize", "torch.LearnedFakeQuantize"}
    assert called <= set(EXAMPLES), called - set(EXAMPLES)


@pytest.fixture
def names(net, model, images, labels, language_folder, tmp_path, monkeypatch) -> dict[str, Any]:
    """What the examples take as given."""
    monkeypatch.chdir(tmp_path)
    pathlib.Path("model.onnx").write_bytes(model.read_bytes())
    pathlib.Path("wiki.test.txt").write_text("a b c " * 200)
    loader = [(images[i : i + 32], labels[i : i + 32]) for i in range(0, len(images), 32)]
    given = {"detent": detent, "net": net, "numpy": np, "pathlib": pathlib, "images": images, "loader": loader, "test_loader": loader, "language_folder": language_folder}  # fmt: skip
    with contextlib.suppress(ImportError):
        import torch

        given |= {"torch": torch, "example": torch.zeros(1, 3, 12, 12), "x": torch.randn(4, 256)}
        given["module"] = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten(), torch.nn.Linear(400, 10))
    return given


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_run(name, names, capsys):
    source = "".join(example.source for example in EXAMPLES[name])
    if any(word in source for word in ("resnet20.th", "torchvision", "skl2onnx")):
        pytest.skip("files and networks that are not here")
    if "torch" in source or "module" in source:
        pytest.importorskip("torch")
    if any(part in source for part in ("generate", "perplexity", "tokenizer")):
        names["net"] = detent.load(names["language_folder"])
    for example in EXAMPLES[name]:
        run(example, names, capsys)


def run(example: doctest.Example, names: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    source = example.source.replace("1, 3, 224, 224", "1, 3, 12, 12")
    exec(compile(source, "docstring", "single"), names)
    printed = capsys.readouterr().out
    if example.want and not example.source.startswith(OTHER_VALUES):
        assert doctest.OutputChecker().check_output(example.want, printed, doctest.ELLIPSIS), printed
    sys.stdout.flush()
