"""The package as a whole: names, documentation, types, import, interruption."""

from __future__ import annotations

import doctest
import inspect
import logging
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

import detent

ROOT = pathlib.Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples" / "python").glob("*.py"))


def test_names_are_those_of_the_documentation():
    text = (ROOT / "docs" / "python.md").read_text()
    listed = re.findall(r"^\| `([\w.]+)[^`]*` \|", text, re.M)
    assert sorted(name for name in listed if "." not in name) == sorted(dir(detent))
    for name in listed:
        value = detent
        for part in name.split("."):
            value = getattr(value, part)


def test_every_public_name_has_a_test():
    tests = "".join(path.read_text() for path in pathlib.Path(__file__).parent.glob("*.py"))
    for name in dir(detent):
        assert f"detent.{name}" in tests, name


def test_is_of_the_version_of_the_project(program):
    printed = subprocess.run([program, "version"], capture_output=True, text=True, check=True).stdout
    assert detent.__version__ in printed


@pytest.mark.parametrize("name", [n for n in dir(detent) if callable(getattr(detent, n))])
def test_is_documented(name):
    value = getattr(detent, name)
    assert inspect.getdoc(value)
    if inspect.isclass(value):
        for method, member in vars(value).items():
            if not method.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
                documented = isinstance(value, type) and inspect.getdoc(getattr(value, method))
                assert documented or name == "Encoded", f"{name}.{method}"


def test_examples_of_docstrings_parse():
    finder = doctest.DocTestFinder()
    examples = [example for test in finder.find(detent.Format) for example in test.examples]
    for example in examples:
        compile(example.source, "docstring", "single")
    assert detent.Format("fp4_e2m1").values() == eval(
        next(e.want for e in examples if "fp4_e2m1" in e.source)
    )


def test_import_is_quick_and_brings_no_numpy_nor_torch():
    script = (
        "import sys, time; begin = time.process_time(); import detent; print(time.process_time() - begin);"
        "assert not {'numpy', 'torch', 'onnx'} & set(sys.modules)"
    )
    took = [float(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout)
            for _ in range(5)]  # fmt: skip
    assert min(took) < 0.05, took


def test_types_are_right(tmp_path):
    pytest.importorskip("mypy")
    folder = pathlib.Path(detent.__file__).parent.parent
    is_installed = folder.name in ("site-packages", "dist-packages")  # where mypy looks anyway
    environment = dict(os.environ) if is_installed else {**os.environ, "MYPYPATH": str(folder)}
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), "--config-file", ROOT / "pyproject.toml"]
    for files in (["-p", "detent"], EXAMPLES):
        done = subprocess.run([*command, *files], capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(example, tmp_path):
    if "torch" in example.read_text():
        pytest.importorskip("torch")
        pytest.importorskip("onnx")
    done = subprocess.run([sys.executable, example], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr


INTERRUPTED = """
import sys, time
import numpy as np
import detent
net = detent.load(sys.argv[1])
samples = np.random.default_rng(0).standard_normal((64, 3, 12, 12)).astype(np.float32)
before = net.run(samples)["logits"]
print("ready", flush=True)
try:
    while True:
        {work}
except KeyboardInterrupt:
    print(time.monotonic(), flush=True)
assert (net.run(samples)["logits"] == before).all()
"""


@pytest.mark.parametrize(
    "work",
    [
        'net.quantize(np.tile(samples, (400, 1, 1, 1)), num_samples=25600, weights="int4", improve=["adaround"])',
        "net.run(np.tile(samples, (200, 1, 1, 1)))",
        "net.test((samples[i % 64], 3) for i in range(10**9))",
        "net.search(np.tile(samples, (20, 1, 1, 1)), evaluations=1000, max_bits=5)",
        "net.values(np.tile(samples, (200, 1, 1, 1)))",
        'net.compare(np.tile(samples, (200, 1, 1, 1)), methods=["adaround"])',
    ],
    ids=["quantize", "run", "test", "search", "values", "compare"],
)
def test_interruption_ends_long_work(model, work):
    script = INTERRUPTED.format(work=work)
    process = subprocess.Popen([sys.executable, "-c", script, model], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    time.sleep(1.5)
    sent = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert float(out) - sent < 3, "a second, on a machine that does nothing else"


def test_a_failed_check_is_a_runtime_error():
    from detent import _detent

    with pytest.raises(RuntimeError, match="one is not two"):
        _detent.fail_check()


@pytest.mark.parametrize(
    ("fault", "fields"),
    [
        (lambda net, x: detent.Format("int99"), {"got": "99 bits", "allowed": "at least 2 and at most 16"}),
        (lambda net, x: detent.Format("int", bits=3), {"got": "int"}),
        (lambda net, x: detent.load("nowhere/no network"), {"file": "nowhere/no network"}),
        (lambda net, x: detent.load(__file__), {"file": __file__}),
        (lambda net, x: net.save("graph.txt"), {"file": "graph.txt"}),
        (lambda net, x: net.run({"x": x[:, :2]}), {"node": "x", "got": "float32 of shape [96, 2, 12, 12]"}),
        (lambda net, x: net.values(x, ["relu9"]), {"key": "names", "got": "relu9"}),
        (lambda net, x: net.values(x, engine="slow"), {"key": "engine", "got": "slow"}),
        (lambda net, x: detent.set_num_threads(0), {"key": "threads", "got": "0", "allowed": "1 to 4096"}),
        (lambda net, x: net.quantize(x, num_samples=0), {"key": "num_samples", "got": "0"}),
        (lambda net, x: net.quantize(x, calibrator="median"), {"key": "calibrator", "got": "median"}),
        (lambda net, x: net.search(x, weights=["int99"]), {"key": "weights", "got": "99 bits"}),
        (lambda net, x: net.search(x, strategy="best"), {"key": "strategy", "got": "best"}),
        (lambda net, x: net.compare(x, methods=["gptqq"]), {"key": "methods", "got": "gptqq"}),
        (lambda net, x: net.nodes["conv1"].parameter("scale"), {"node": "conv1", "key": "scale"}),
    ],
)
def test_errors_have_fields(net, images, fault, fields):
    """As the libraries made them: none of them is read off the message."""
    from detent import _errors

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_errors, "_said", lambda *_: None)
        with pytest.raises(detent.Error) as caught:
            fault(net, images)
    for name, value in fields.items():
        assert getattr(caught.value, name) == value


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("--improve none: biases stay", "improve='none': biases stay"),
        ("give --min-sqnr 25, --max-bytes 300k or --strategy", "give min_sqnr=25, max_bytes='300k' or strategy"),
        ("(`detent quantize --keep-float 'fc'` leaves it)", "(`net.quantize(keep_float='fc')` leaves it)"),
        ("`detent quantize --weights int4 --improve gptq`", "`net.quantize(weights='int4', improve='gptq')`"),
        ("detent quantize: key \"bits\"", "quantize: key \"bits\""),
        ("give --labels FILE, or", "give pairs of inputs and labels, or"),
        ("replace it with --overwrite", "replace it with overwrite=True"),
        ("a -- b, x--y", "a -- b, x--y"),
    ],
)
def test_errors_speak_python(said, expected):
    assert str(detent.Error(said)) == expected


def test_nothing_speaks_of_the_command_line(net, images, caplog):
    """Errors, what the logger gets, and advice."""
    import numpy as np

    faults = [
        lambda: net.quantize(images, keep_float=[".*"]),
        lambda: net.quantize(images, keep_float=["nothing"]),
        lambda: net.quantize(images, bits={"nothing": 4}),
        lambda: net.quantize(images, improve=["gptq", "adaround"]),
        lambda: net.quantize(images, improve=["bias_correction", "gptq"]),
        lambda: net.quantize(images, improve=["axe"]),
        lambda: net.quantize(images, accumulator="int99"),
        lambda: net.search(images),
        lambda: net.search(images, max_drop=1),
        lambda: net.quantize(images, analyze=False).network.quantize(images),
    ]
    texts = []
    with caplog.at_level(logging.INFO, "detent"):
        for fault in faults:
            with pytest.raises(detent.Error) as caught:
                fault()
            texts.append(str(caught.value))
        advice = net.quantize(np.tile(images, (2, 1, 1, 1)), weights="int2", activations="uint2").advice
    assert "improve=" in advice
    for text in [*texts, *(record.message for record in caplog.records), advice]:
        assert not re.search(r"command line|(?<![\w-])--[a-z]|\[passes|training set|`detent |\bFILE\b", text), text


def test_arguments_of_another_type_are_named(net, images, tmp_path):
    for name, fault in {
        "seed": lambda: net.quantize(images, seed="a"),
        "batch_size": lambda: net.quantize(images, batch_size="a"),
        "num_workers": lambda: net.test([(images, [0] * 96)], num_workers=1.5),
        "prepare": lambda: net.quantize(images, prepare=3),
        "keep_float": lambda: net.compare(images, keep_float=3),
        "opset": lambda: net.export(tmp_path / "a.onnx", opset="17"),
        "threads": lambda: detent.Session(net, threads="all"),
        "count": lambda: detent.set_num_threads("all"),
        "shapes": lambda: detent.load("a.onnx", shapes=[1, 3]),
        "classes": lambda: detent.load("a.onnx", classes="10"),
        "net": lambda: detent.Session(None),
    }.items():
        with pytest.raises(TypeError, match=f"^{name}: got "):
            fault()
    with pytest.raises(TypeError, match="^net: got NoneType"):
        detent.quantize(None, images)


def test_errors_are_pickled_and_made():
    import pickle

    error = detent.Error("net.onnx: got 3, expected 4", node="conv")
    assert (error.file, error.node, error.got, error.allowed, error.key) == ("net.onnx", "conv", "3", "4", None)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.node, again.file) == (str(error), "conv", "net.onnx")


def test_from_torch(images):
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnx")
    import numpy as np

    module = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(800, 10)
    )
    module.train()
    net = detent.from_torch(module, torch.zeros(1, 3, 12, 12))
    assert module.training
    assert net.outputs == ["output"]
    module.eval()
    with torch.no_grad():
        expected = module(torch.from_numpy(images)).numpy()
    np.testing.assert_allclose(net.run(torch.from_numpy(images))["output"], expected, rtol=1e-3, atol=1e-5)
    with pytest.raises(TypeError, match="module: got int"):
        detent.from_torch(3, images)
    with pytest.raises(TypeError, match="expected tensors"):
        detent.from_torch(module, [1, 2])
    named = detent.from_torch(module, torch.zeros(1, 3, 12, 12), input_names=["picture"], output_names=["scores"])
    assert (named.inputs[0].name, named.outputs) == ("picture", ["scores"])


def test_a_second_interpreter_of_the_process_is_refused():
    script = """
import detent
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
second = interpreters.create()
interpreters.run_string(second, "try:\\n import detent\\nexcept ImportError as error:\\n print(error, flush=True)")
assert detent.Format("int4").bits == 4
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "another interpreter of this process" in done.stdout or "does not support loading in subinterpreters" in done.stdout
