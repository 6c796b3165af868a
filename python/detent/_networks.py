"""Networks, and what is done with them."""

from __future__ import annotations

import os

from detent import _detent
from detent._arguments import checked, checked_argument
from detent._copies import Unchanging
from detent._options import (
    check_loading,
    described_compare,
    described_quantize,
    described_search,
    generation_options,
    given_options,
    names_of,
)

# Only type checkers take it for true: typing and dataclasses cost more than the rest of the import.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, overload

    from numpy.typing import NDArray

    from detent._compare import ComparisonResult
    from detent._language import (
        Answers,
        FormatPerplexities,
        GeneratedText,
        Generation,
        LanguageModel,
        Message,
        Perplexity,
        Tokenizer,
    )
    from detent._nodes import Input, Nodes
    from detent._results import Accuracy, QuantizeResult, Sizes
    from detent._search import SearchResult
    from detent._types import FormatLike, Path, SampleSource
else:

    def overload(function):
        return function


_MOST_THREADS = 4096


class Session(Unchanging):
    """A network that is ready to run, from several threads at once. threads: that one run uses; None: all there are.

    >>> session = detent.Session(net, threads=1)
    >>> logits = session.run({"x": images})["logits"]
    """

    __slots__ = ("_net", "_session")

    _instead_of_pickling = "make one of the network in each process"

    @checked
    def __init__(self, net: Network, *, threads: int | None = None) -> None:
        _expect_network(net)
        if threads is not None and not 1 <= threads <= _MOST_THREADS:
            raise ValueError(f"threads: got {threads}, expected 1 to {_MOST_THREADS}")
        self._net = net
        self._session = _detent.GraphSession(net._graph, threads or _MOST_THREADS)

    def run(self, inputs: Mapping[str, Any] | Any, *, out: dict[str, Any] | None = None) -> dict[str, NDArray[Any]]:
        """The outputs by name. inputs: arrays by name, or a tuple of them in the order of `Network.inputs`, or the array
        of the only one, or the ids of tokens of a language model, whose attention_mask is then ones; a data frame gives a
        column to each input where they are called so, else all as one array. Sizes may differ from run to run.

        out: contiguous arrays by output, which are written to. bfloat16 outputs come as float32, as numpy has no such
        type. Contiguous arrays of the input's dtype are not copied; floats of another width are, and integers as wider
        ones.

        Raises TypeError where something is no such array, Error where a shape does not fit.
        """
        result: dict[str, NDArray[Any]] = self._session.run(inputs, out)
        return result

    def __repr__(self) -> str:
        return f"<detent.Session of {self._net!r}>"


class Network(Unchanging):
    """A network in float or quantized: `detent.load`, `detent.from_torch` and `Network.quantize` make them.

    Networks do not change: what changes one gives another. From several threads at once.
    """

    __slots__ = ("_graph", "_language", "_session")

    _instead_of_pickling = "save() writes it to a file, which detent.load() reads"

    def __init__(self, graph: _detent.NetworkGraph) -> None:
        self._graph = graph
        self._session: Session | None = None
        self._language: LanguageModel | None = None

    @property
    def name(self) -> str:
        """What the file calls it."""
        return self._graph.name()

    @property
    def inputs(self) -> list[Input]:
        """In the order in which it takes them."""
        from detent._nodes import Input

        return [
            Input(name, dtype, tuple(int(size) if size.isdigit() else size for size in shape))
            for name, dtype, shape in self._graph.inputs()
        ]

    @property
    def outputs(self) -> list[str]:
        """Names of what `run` gives."""
        return self._graph.output_names()

    @property
    def nodes(self) -> Nodes:
        """The nodes in execution order, shapes for one sample."""
        from detent._nodes import Node, Nodes

        return Nodes([Node(self._graph, found) for found in self._graph.nodes()])

    @property
    def sizes(self) -> Sizes:
        """What storing it takes."""
        from detent._results import Sizes

        return Sizes(**self._graph.sizes())

    def run(self, inputs: Mapping[str, Any] | Any, *, out: dict[str, Any] | None = None) -> dict[str, NDArray[Any]]:
        """The outputs by name, on all threads: see `Session.run`.

        >>> net.run({"x": numpy.zeros((1, 3, 224, 224), numpy.float32)})["logits"].shape
        (1, 1000)
        """
        if self._session is None:
            self._session = Session(self)
        return self._session.run(inputs, out=out)

    @checked
    def quantize(
        self,
        calibration: SampleSource | None = None,
        *,
        test: SampleSource | None = None,
        weights: FormatLike | None = None,
        activations: FormatLike | None = None,
        elementwise: str | None = None,
        formats: Mapping[str, str] | str | None = None,
        bits: Mapping[str, int | str] | str | None = None,
        symmetric_activations: bool | None = None,
        weight_granularity: str | None = None,
        weight_group_size: int | None = None,
        weight_calibrator: str | None = None,
        calibrator: str | None = None,
        percentile: float | None = None,
        num_sigma: float | None = None,
        scale_form: str | None = None,
        num_samples: int | None = None,
        first_last_layers: str | None = None,
        keep_float: Sequence[str] | str | None = None,
        requantization: str | None = None,
        accumulator: Sequence[str] | str | None = None,
        cache_format: FormatLike | None = None,
        prepare: Sequence[str] | str | None = None,
        improve: Sequence[str] | str | None = None,
        seed: int = 0,
        batch_size: int = 128,
        num_workers: int = 0,
        analyze: bool = True,
        report: Path | None = None,
        overwrite: bool = False,
    ) -> QuantizeResult:
        from detent._errors import advice_in_python
        from detent._results import Accuracy, QuantizeResult, Sizes
        from detent._samples import collect

        check_loading(batch_size, num_workers)
        options = {
            "weights": weights,
            "activations": activations,
            "elementwise": elementwise,
            "formats": formats,
            "bits": bits,
            "symmetric_activations": symmetric_activations,
            "weight_granularity": weight_granularity,
            "weight_group_size": weight_group_size,
            "weight_calibrator": weight_calibrator,
            "calibrator": calibrator,
            "percentile": percentile,
            "num_sigma": num_sigma,
            "scale_form": scale_form,
            "num_samples": num_samples,
            "first_last_layers": first_last_layers,
            "keep_float": names_of("keep_float", keep_float),
            "requantization": requantization,
            "accumulator": accumulator,
        }
        wish = {
            "options": given_options(options),
            "prepare": names_of("prepare", prepare),
            "improve": names_of("improve", improve),
            "output": None,
            "cache_format": "" if cache_format is None else str(cache_format),
        }
        tested = None if test is None else collect(self._graph, test, "test", labels="needed")
        samples = None if calibration is None else collect(self._graph, calibration, "calibration")
        page = "" if report is None else os.fspath(report)
        found: dict[str, Any] = self._graph.quantize(
            samples, tested, wish, seed, batch_size, num_workers, analyze, page, overwrite
        )
        network = Network(found.pop("network"))
        for name, kind in (
            ("accuracy_before", Accuracy),
            ("accuracy_after", Accuracy),
            ("sizes_before", Sizes),
            ("sizes_after", Sizes),
        ):
            found[name] = None if found[name] is None else kind(**found[name])
        found["advice"] = advice_in_python(found.get("advice", ""))
        return QuantizeResult(network=network, **found)

    @checked
    def test(self, samples: SampleSource, *, batch_size: int = 128, num_workers: int = 0) -> Accuracy:
        """Accuracy and loss over pairs of inputs and labels, such as a DataLoader yields.

        labels: integers from 0, one a sample. num_workers: threads that load ahead of the network. Raises Error on labels
        that the network has no output for.

        >>> print(net.test(loader))
        0.6300 +- 0.0483 (63/100)
        """
        from detent._results import Accuracy
        from detent._samples import collect

        check_loading(batch_size, num_workers)
        collected = collect(self._graph, samples, "samples", labels="needed")
        return Accuracy(**self._graph.test(collected, batch_size, num_workers))

    @checked
    def values(
        self,
        inputs: Mapping[str, Any] | Any,
        names: Sequence[str] | None = None,
        *,
        before_quantization: bool = False,
        as_integers: bool = False,
        engine: str | None = None,
    ) -> dict[str, NDArray[Any]]:
        """Intermediate results by name: what `detent run --value` gives.

        inputs: as `run` takes them. names: of nodes, or what the ONNX model calls the values; None: the results of all
        nodes that compute. before_quantization: as nodes compute them, before they are rounded. as_integers: those that
        have quantized integers, as these. engine: "simulation", "reference" or "fast"; None: fast where the network is
        quantized for integers.

        Raises Error on unknown names, and as `run` does.

        >>> net.values(images, ["relu1"])["relu1"].shape
        (1, 64, 112, 112)
        """
        given = None if names is None else list(names)
        return _detent.values(self._graph, inputs, given, before_quantization, as_integers, engine)

    @checked
    def report(
        self,
        path: Path,
        samples: SampleSource | None = None,
        *,
        overwrite: bool = False,
        batch_size: int = 128,
        num_workers: int = 0,
    ) -> None:
        """Writes a page (NAME.html) that shows the network: what `detent test --report` writes.

        samples: what histograms of activations are of, and, with labels, the accuracy; None: weights alone. A page that
        exists is replaced with `overwrite` only, any other file never. `quantize` and `search` write pages of their results.

        >>> net.report("network.html", loader)
        """
        from detent._samples import collect

        check_loading(batch_size, num_workers)
        collected = None if samples is None else collect(self._graph, samples, "samples", labels="kept")
        _detent.report(self._graph, collected, os.fspath(path), overwrite, batch_size, num_workers)

    @checked
    def search(
        self,
        calibration: SampleSource,
        *,
        validation: SampleSource | None = None,
        max_drop: float | None = None,
        min_sqnr: float | None = None,
        max_bytes: int | str | None = None,
        max_bits: float | None = None,
        max_latency: str | None = None,
        cost: str | None = None,
        quality: str | None = None,
        time: str | float | None = None,
        evaluations: int | None = None,
        strategy: str | None = None,
        weights: Sequence[FormatLike] | None = None,
        activations: Sequence[FormatLike] | None = None,
        elementwise: Sequence[FormatLike] | None = None,
        choices: str | None = None,
        weight_granularity: str | None = None,
        weight_calibrators: Sequence[str] | None = None,
        calibrator: str | None = None,
        percentile: float | None = None,
        num_sigma: float | None = None,
        scale_form: str | None = None,
        weight_rule: str | None = None,
        prepare: Sequence[str] | str | None = None,
        improve: Sequence[str] | str | None = None,
        winners: int | None = None,
        num_samples: int | None = None,
        eval_samples: int | None = None,
        points: int | None = None,
        seed: int = 0,
        batch_size: int = 128,
        num_workers: int = 0,
        folder: Path | None = None,
        resume: bool = False,
        overwrite: bool = False,
        report: Path | None = None,
    ) -> SearchResult:
        from detent._samples import collect
        from detent._search import search_result

        check_loading(batch_size, num_workers)
        options = {
            "max_drop": max_drop,
            "min_sqnr": min_sqnr,
            "max_bytes": max_bytes,
            "max_bits": max_bits,
            "max_latency": max_latency,
            "cost": cost,
            "quality": quality,
            "time": time,
            "evaluations": evaluations,
            "strategy": strategy,
            "weights": weights,
            "activations": activations,
            "elementwise": elementwise,
            "choices": choices,
            "weight_granularity": weight_granularity,
            "weight_calibrators": weight_calibrators,
            "calibrator": calibrator,
            "percentile": percentile,
            "num_sigma": num_sigma,
            "scale_form": scale_form,
            "weight_rule": weight_rule,
            "prepare": prepare,
            "improve": improve,
            "winners": winners,
            "num_samples": num_samples,
            "eval_samples": eval_samples,
            "points": points,
        }
        samples = collect(self._graph, calibration, "calibration", labels="kept")
        judged = None if validation is None else collect(self._graph, validation, "validation", labels="kept")
        found = _detent.search(
            self._graph,
            samples,
            judged,
            given_options(options),
            seed,
            batch_size,
            num_workers,
            "" if folder is None else os.fspath(folder),
            resume,
            overwrite,
            "" if report is None else os.fspath(report),
        )
        return search_result(found["report"], {name: Network(graph) for name, graph in found["networks"].items()})

    @checked
    def compare(
        self,
        calibration: SampleSource,
        *,
        test: SampleSource | None = None,
        formats: Sequence[FormatLike] | FormatLike | None = None,
        methods: Sequence[str] | str | None = None,
        prepare: Sequence[str] | str | None = None,
        time: str | float | None = None,
        eval_samples: int | None = None,
        activations: FormatLike | None = None,
        elementwise: str | None = None,
        symmetric_activations: bool | None = None,
        weight_granularity: str | None = None,
        weight_group_size: int | None = None,
        weight_calibrator: str | None = None,
        calibrator: str | None = None,
        percentile: float | None = None,
        num_sigma: float | None = None,
        scale_form: str | None = None,
        num_samples: int | None = None,
        first_last_layers: str | None = None,
        keep_float: Sequence[str] | str | None = None,
        requantization: str | None = None,
        accumulator: Sequence[str] | str | None = None,
        seed: int = 0,
        batch_size: int = 128,
        num_workers: int = 0,
        folder: Path | None = None,
        resume: bool = False,
        overwrite: bool = False,
        report: Path | None = None,
    ) -> ComparisonResult:
        from detent._compare import comparison_result
        from detent._samples import collect

        check_loading(batch_size, num_workers)
        own = {"formats": formats, "methods": methods, "prepare": prepare, "time": time, "eval_samples": eval_samples}
        shared = {
            "activations": activations,
            "elementwise": elementwise,
            "symmetric_activations": symmetric_activations,
            "weight_granularity": weight_granularity,
            "weight_group_size": weight_group_size,
            "weight_calibrator": weight_calibrator,
            "calibrator": calibrator,
            "percentile": percentile,
            "num_sigma": num_sigma,
            "scale_form": scale_form,
            "num_samples": num_samples,
            "first_last_layers": first_last_layers,
            "keep_float": names_of("keep_float", keep_float),
            "requantization": requantization,
            "accumulator": accumulator,
        }
        samples = collect(self._graph, calibration, "calibration", labels="kept")
        judged = None if test is None else collect(self._graph, test, "test", labels="kept")
        found = _detent.compare(
            self._graph,
            samples,
            judged,
            given_options(own),
            given_options(shared),
            seed,
            batch_size,
            num_workers,
            "" if folder is None else os.fspath(folder),
            resume,
            overwrite,
            "" if report is None else os.fspath(report),
        )
        return comparison_result(found)

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer that comes with a language model. Raises Error where none does."""
        from detent._language import Tokenizer

        return Tokenizer(self._graph.source()) if self._language is None else self._language.tokenizer(None)

    def _as_language(self, cache_format: FormatLike | None = None) -> LanguageModel:
        """The last one is kept, since its weights are packed."""
        cache = "" if cache_format is None else str(cache_format)
        if self._language is None or self._language.cache_format != cache:
            from detent._language import LanguageModel

            self._language = LanguageModel(self._graph, cache)
        return self._language

    @checked
    def generate(
        self,
        prompt: str | Sequence[int] | Sequence[Message] | NDArray[Any],
        *,
        chat: bool = False,
        system: str | None = None,
        chat_template: str | None = None,
        tokenizer: Tokenizer | Path | None = None,
        max_tokens: int = 256,
        stop: str | Sequence[str] = (),
        ignore_eos: bool = False,
        temperature: float = 0,
        top_k: int = 0,
        top_p: float = 1,
        min_p: float = 0,
        repetition_penalty: float = 1,
        seed: int = 0,
        cache_format: FormatLike | None = None,
        num_threads: int | None = None,
    ) -> Generation:
        """Continues a text with a language model: what `detent generate` does. The same options give the same text, on
        every processor, with any number of threads.

        prompt: the text to continue, ids of tokens, or messages of a chat: dicts with role and content. chat: the prompt is
        the only message. system: the message that a chat begins with. chat_template: another one than the model's, in
        Jinja. tokenizer: another one, or the path of one.

        max_tokens: at most so many. stop: ends before one of these texts. ignore_eos: never draws a token that ends the
        text. In this order: repetition_penalty divides positive logits of tokens that were there and multiplies others;
        temperature divides logits, 0 takes the most likely token; top_k leaves so many of the most likely tokens, 0 all;
        top_p those that together have this share; min_p those with at least this part of the largest share. seed: the same
        one draws the same text. cache_format: of keys and values that are kept, each token's part of a head with a scale of
        its own: "int8", "int4", "fp8_e4m3fn"; None: as the network computes them. num_threads: None: all there are.

        Gives an iterator over tokens as they come; `str()` of it, `.text` and `.tokens` wait for the end. Ctrl-C ends the
        wait. Raises Error where the network is no language model, and where an option makes no sense.

        >>> print(net.generate("Once upon a time", max_tokens=10))
        , the city of Nova Haven was a thriving metropolis
        """
        options = generation_options(
            max_tokens=max_tokens,
            stop=stop,
            ignore_eos=ignore_eos,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            min_p=min_p,
            repetition_penalty=repetition_penalty,
            seed=seed,
        )
        return self._as_language(cache_format).generate(
            prompt,
            options,
            chat=chat,
            system=system,
            chat_template=chat_template,
            tokenizer=tokenizer,
            num_threads=num_threads,
        )

    @checked
    def generate_batch(
        self,
        prompts: Sequence[str | Sequence[int] | NDArray[Any]],
        *,
        num_sequences: int = 1,
        tokenizer: Tokenizer | Path | None = None,
        cache_format: FormatLike | None = None,
        num_threads: int | None = None,
        **options: Any,
    ) -> list[GeneratedText]:
        """Continues several texts beside each other, a token of each at a time, so that weights are read once: what
        `detent generate` does with several prompts. Each is what it is alone.

        num_sequences: continues each prompt so many times, with seeds that follow `seed`; they stand beside each other.
        options: those of `generate` from max_tokens to seed.

        >>> [str(text) for text in net.generate_batch(["First", "Second"], max_tokens=3)]
        [', the', ' World']
        """
        model = self._as_language(cache_format)
        given = generation_options(**options)
        return model.generate_batch(prompts, num_sequences, given, tokenizer=tokenizer, num_threads=num_threads)

    @overload
    def perplexity(
        self,
        text: str | os.PathLike[str] | None = None,
        *,
        ids: Any = None,
        task: None = None,
        tokenizer: Tokenizer | Path | None = None,
        protocol: str = "windows",
        window: int = 512,
        stride: int = 0,
        windows: int = 0,
        reference: Network | Path | None = None,
        reference_logits: Any = None,
        save_logits: Path | None = None,
        losses: Path | None = None,
        overwrite: bool = False,
        formats: None = None,
        cache_format: FormatLike | None = None,
        num_threads: int | None = None,
    ) -> Perplexity: ...

    @overload
    def perplexity(
        self,
        text: str | os.PathLike[str] | None = None,
        *,
        ids: Any = None,
        formats: Sequence[FormatLike | tuple[FormatLike, FormatLike]],
        tokenizer: Tokenizer | Path | None = None,
        protocol: str = "windows",
        window: int = 512,
        stride: int = 0,
        windows: int = 0,
        num_threads: int | None = None,
    ) -> FormatPerplexities: ...

    @overload
    def perplexity(
        self,
        *,
        task: Path | Sequence[Mapping[str, Any]],
        tokenizer: Tokenizer | Path | None = None,
        reference: Network | Path | None = None,
        cache_format: FormatLike | None = None,
        num_threads: int | None = None,
    ) -> Answers: ...

    @checked
    def perplexity(
        self,
        text: str | os.PathLike[str] | None = None,
        *,
        ids: Any = None,
        task: Path | Sequence[Mapping[str, Any]] | None = None,
        tokenizer: Tokenizer | Path | None = None,
        protocol: str = "windows",
        window: int = 512,
        stride: int = 0,
        windows: int = 0,
        reference: Network | Path | None = None,
        reference_logits: Any = None,
        save_logits: Path | None = None,
        losses: Path | None = None,
        overwrite: bool = False,
        formats: Sequence[FormatLike | tuple[FormatLike, FormatLike]] | None = None,
        cache_format: FormatLike | None = None,
        num_threads: int | None = None,
    ) -> Perplexity | FormatPerplexities | Answers:
        """How well a language model predicts a text: what `detent perplexity` does. Threads change no bit.

        text: the text itself, or a pathlib.Path of one; or ids: those of its tokens, or the path of an .npy file. tokenizer:
        another one than the model's, or the path of one. protocol: "windows": all of each window but its first token
        (GPTQ); "halves": the second half of each (llama.cpp). window: its tokens. stride: from the begin of one to that of
        the next, of which only new tokens are scored; 0: the window. windows: at most so many; 0: all that the text fills.

        reference: another network to compare with, or its path; reference_logits: the same of logits that save_logits
        wrote, an array or a path. save_logits, losses: .npy files to write, which exist only with `overwrite`.
        cache_format: of keys and values, as for `generate`; the reference keeps its own.

        formats: quantizes both operands of every product to each of these, one after another, and gives
        FormatPerplexities: formats, texts as "int4_g32/fp8_e4m3fn", or pairs of the weights' and the activations'.

        task: instead of a text, questions of several choices: dicts with context, choices and answer, or a path
        (docs/language_models.md).

        Raises Error where the network is no language model, where an option makes no sense, and on a text that does not
        fill one window. Ctrl-C ends it.

        >>> print(net.perplexity(pathlib.Path("wiki.test.txt"), windows=8))
        27.613870 +- 1.360493 (4088 tokens)
        """
        if sum(given is not None for given in (text, ids, task)) != 1:
            raise TypeError("expected one of text, ids and task")
        keeps = reference_logits is not None or save_logits is not None or losses is not None
        measured = {"protocol": protocol, "window": window, "stride": stride, "windows": windows}
        if formats is not None:
            if keeps or task is not None or reference is not None or cache_format is not None:
                raise ValueError(
                    "formats takes the place of a reference, of a task, of cache_format and of what is kept: it compares"
                    " with the network as it is"
                )
            from detent._language import format_perplexities

            return format_perplexities(
                self._graph, formats, text, ids, measured, tokenizer=tokenizer, num_threads=num_threads
            )
        if reference is not None and not isinstance(reference, Network):
            from detent._loading import load

            reference = load(checked_argument("reference", reference, "Path"))
        other = None if reference is None else reference._as_language()
        model = self._as_language(cache_format)
        if task is not None:
            if keeps:
                raise ValueError("task has no losses or logits to keep: reference compares")
            return model.answers(task, tokenizer=tokenizer, reference=other, num_threads=num_threads)
        if reference is not None and reference_logits is not None:
            raise ValueError("reference and reference_logits exclude each other")
        return model.perplexity(
            text,
            ids,
            measured,
            tokenizer=tokenizer,
            reference=other,
            reference_logits=reference_logits,
            save_logits=save_logits,
            losses=losses,
            overwrite=overwrite,
            num_threads=num_threads,
        )

    @checked
    def save(self, path: Path, *, packed: bool = True, overwrite: bool = False) -> list[str]:
        """Writes a graph (.mz), which `load`, the command and the C library read; of a language model also its tokenizer,
        chat template and end tokens, into the same folder, for `generate`.

        packed: quantized weights as integers, which a training cannot refine any more. Returns a line for each quantized
        weight that stays float32. Raises Error where the file exists, unless `overwrite`, and where the tokenizer of
        another network is in the folder.

        >>> net.quantize(loader).network.save("int8.mz")
        []
        """
        return self._graph.save(os.fspath(path), packed, overwrite)

    @checked
    def export(
        self,
        path: Path,
        *,
        style: str | None = None,
        opset: int | None = None,
        unsigned_weights: bool = False,
        overwrite: bool = False,
    ) -> None:
        """Writes an ONNX model (.onnx).

        style: "qdq" (usual of quantized networks), "qoperator", "matmulnbits", "qonnx", or "float" (usual of others).
        opset: 13 to 25. unsigned_weights: 8-bit weights as uint8, for processors without VNNI. Raises Error where the
        file exists, unless `overwrite`, and where the style cannot hold the formats.

        >>> net.quantize(loader).network.export("int8.onnx", style="qoperator")
        """
        if style is None:
            style = "qdq" if self.is_quantized else "float"
        self._graph.export(os.fspath(path), style, opset, unsigned_weights, overwrite)

    @property
    def is_quantized(self) -> bool:
        """Whether any operand is rounded to a format."""
        return self._graph.is_quantized()

    def __repr__(self) -> str:
        inputs = ", ".join(f"{i.name} {i.dtype} {list(i.shape)}" for i in self.inputs)
        return f"<detent.Network {self.name}: {inputs} -> {', '.join(self.outputs)}>"

    def _repr_html_(self) -> str:
        from html import escape

        sizes = self.sizes
        return (
            f"<p><b>{escape(self.name)}</b>: {sizes.weight_values} weights in {sizes.weight_bytes} bytes</p>"
            + self.nodes._repr_html_()
        )


Network.quantize.__doc__ = described_quantize()
Network.search.__doc__ = described_search()
Network.compare.__doc__ = described_compare()


def _expect_network(net: Any) -> None:
    if not isinstance(net, Network):
        raise TypeError(f"net: got {type(net).__name__}, expected a Network")


def quantize(net: Network, calibration: SampleSource | None = None, **options: Any) -> QuantizeResult:
    _expect_network(net)
    return net.quantize(calibration, **options)


def compare(net: Network, calibration: SampleSource, **options: Any) -> ComparisonResult:
    _expect_network(net)
    return net.compare(calibration, **options)


compare.__doc__ = f"`net.compare(calibration, ...)`.\n\n{Network.compare.__doc__}"
quantize.__doc__ = f"`net.quantize(calibration, ...)`.\n\n{Network.quantize.__doc__}"


@checked
def set_num_threads(count: int) -> None:
    """How many threads all work of the process uses, of which no more are made than there are processors.

    >>> detent.set_num_threads(2)
    """
    _detent.set_num_threads(count)


def num_threads() -> int:
    """How many threads work uses: one a processor, unless `set_num_threads` said otherwise."""
    return _detent.num_threads()
