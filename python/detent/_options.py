"""Options of what is done with networks: from Python to the libraries, and what `help` says of them."""

from __future__ import annotations

from detent import _detent
from detent._arguments import checked, natural
from detent._formats import Format

TYPE_CHECKING = False  # but for type checkers
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


def option_value(value: Any) -> Any:
    if isinstance(value, Format):
        return str(value)
    if isinstance(value, (list, tuple)):
        return [option_value(entry) for entry in value]
    return {name: option_value(entry) for name, entry in value.items()} if hasattr(value, "items") else value


def given_options(options: dict[str, Any]) -> dict[str, Any]:
    """Those that are not None; passes of a group that runs together as one text."""
    given = {name: option_value(value) for name, value in options.items() if value is not None}
    if isinstance(given.get("time"), (int, float)):
        given["time"] = f"{given['time']}s"
    for name in ("prepare", "improve"):
        if name in given and not isinstance(given[name], str):
            given[name] = ",".join(given[name]) or "none"
    return given


def names_of(option: str, given: Sequence[str] | str | None) -> list[str] | None:
    """Names as a list: a text has them with commas between, as on the command line, where "none" has none."""
    if given is not None and not hasattr(given, "__iter__"):
        raise TypeError(f"{option}: got {type(given).__name__}, expected names")
    if isinstance(given, str):
        if given == "none":
            return []
        return [name.strip() for name in given.split(",") if name.strip()]
    return None if given is None else list(given)


def check_loading(batch_size: int, num_workers: int) -> None:
    for name, given, least in (("batch_size", batch_size, 1), ("num_workers", num_workers, 0)):
        if given < least:
            raise ValueError(f"{name}: got {given}, expected at least {least}")


@checked
def generation_options(
    *,
    max_tokens: int = 256,
    stop: str | Sequence[str] = (),
    ignore_eos: bool = False,
    temperature: float = 0,
    top_k: int = 0,
    top_p: float = 1,
    min_p: float = 0,
    repetition_penalty: float = 1,
    seed: int = 0,
) -> dict[str, Any]:
    """What `generate` and `generate_batch` have in common."""
    return {
        "max_tokens": max_tokens,
        "stop": [stop] if isinstance(stop, str) else list(stop),
        "ignore_eos": ignore_eos,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "min_p": min_p,
        "repetition_penalty": repetition_penalty,
        "seed": natural("seed", seed),
    }


def option_lines(options: Sequence[dict[str, Any]]) -> list[str]:
    lines = []
    for option in options:
        default = {"NA": "None", "true": "True", "false": "False"}.get(option["default"], option["default"])
        kind = option["type"].replace(" or NA", " or None")
        lines.append(f"{option['name']}: {option['help']}; {kind} (default {default})")
    return lines


def described_quantize() -> str:
    lines = [
        "The network quantized for execution in integers: what `detent quantize` does.",
        "",
        "calibration: batches of inputs, batch first: arrays, or dicts of arrays by input, or pairs of these and labels,",
        "such as a DataLoader yields; also one array, or a function that gives an iterator. All are taken, once, and kept",
        "in a temporary file beyond 8 MiB, so that memory does not grow with them. For the same samples in the same order",
        "the network is that of the command, to the last bit, however they are cut into batches. None: weights alone are",
        "quantized (activations=\"float32\"), and errors are those on random inputs.",
        "test: pairs of inputs and labels that accuracy is measured on, before and after.",
        "",
        "What is not given, or None, is as the command has it:",
        "",
    ]
    lines += option_lines(_detent.quantize_options())
    lines += [
        f"prepare: passes before (default {', '.join(_detent.default_prepare())})",
        "improve: passes for better weights, for example [\"gptq\", \"bias_correction\"] or [\"hadamard\", \"gptq\"]",
        "(default bias_correction where weights or activations have fewer than 8 bits)",
        "cache_format: of language models: keys and values that are kept, each token's part of a head with a scale of its",
        "own: \"int8\", \"int4\", \"fp8_e4m3fn\"; the products that read them compute in float",
        "seed: of the order in which samples are taken. batch_size: samples a batch. num_workers: threads that load ahead",
        "analyze: False leaves out what each layer loses, what would help, and the comparison with integer execution:",
        "the same network in less time",
        "report: a page (NAME.html) that shows the results; one that exists is replaced with `overwrite` only",
        "",
        "Raises TypeError on what is no array of the input's kind, Error on options and samples that do not fit; what the",
        "iterable raises comes through. Ctrl-C ends it.",
        "",
        ">>> result = net.quantize(loader, test=test_loader, weights=\"int4\", improve=[\"gptq\"])",
        ">>> print(result)",
        ">>> result.network.export(\"int4.onnx\")",
    ]
    return "\n".join(lines)


def described_search() -> str:
    lines = [
        "The smallest network that is good enough, or the best one that is small enough: what `detent search` does.",
        "",
        "calibration: as `quantize` takes it; pairs of inputs and labels let networks be judged by their accuracy, others by",
        "the SQNR of the outputs. validation: what networks are judged by; None: where there are labels, samples of",
        "calibration that then do not calibrate, else the same samples.",
        "",
        "What is not given, or None, is as the command has it:",
        "",
    ]
    lines += option_lines(_detent.search_options())
    lines += [
        "seed: of what is drawn at random. batch_size: samples a batch. num_workers: threads that load ahead",
        "folder: where the networks and the journal are written while it searches; None: nowhere. resume: goes on with the",
        "search that is there, after Ctrl-C too; overwrite: begins anew",
        "report: a page (NAME.html) that shows the results",
        "",
        "Raises Error on options and samples that do not fit, and where the network is quantized already. Ctrl-C ends it.",
        "",
        ">>> found = net.search(loader, max_drop=0.5, time=\"10m\")",
        ">>> print(found)",
        ">>> found.network.export(\"small.onnx\")",
    ]
    return "\n".join(lines)


def described_compare() -> str:
    lines = [
        "Formats and methods compared, with one calibration: what `detent compare` does. Accuracy, divergence from the network",
        "in float, bytes and latency of each, and the front of them.",
        "",
        "calibration: as `quantize` takes it. test: what networks are judged by, with labels by their accuracy too; None:",
        "where there are labels, samples of calibration that then do not calibrate, else the same samples.",
        "",
        "What is not given, or None, is as the command has it:",
        "",
    ]
    lines += option_lines(_detent.compare_options())
    lines += [
        "seed: of what is drawn at random. batch_size: samples a batch. num_workers: threads that load ahead",
        "folder: where comparison.json and the journal are written while it measures; None: nowhere. resume: goes on with the",
        "comparison that is there, after Ctrl-C too, with more formats and methods; overwrite: begins anew",
        "report: a page (NAME.html) that shows the results",
        "",
        "Raises Error on options and samples that do not fit, and where the network is quantized already. Ctrl-C ends it.",
        "",
        ">>> compared = net.compare(loader, formats=[\"int8\", \"int4\", \"nvfp4/nvfp4\"], methods=[\"none\", \"gptq\"])",
        ">>> print(compared)",
        ">>> best = net.quantize(loader, **compared.front[-1].options)",
    ]
    return "\n".join(lines)
