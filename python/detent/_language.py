"""Language models: texts to tokens, texts continued, texts predicted."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from detent import _detent
from detent._arguments import checked, checked_argument, listed
from detent._copies import Unchanging
from detent._results import Result

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from detent._types import Path

Message = Mapping[str, str]

MOST_THREADS = 4096


class Tokenizer(Unchanging):
    """Text to ids of tokens and back: of tokenizer.json or tokenizer.model, a folder with one, or a GGUF file.

    Raises Error where there is none, and on what it asks for that is not supported.

    >>> net.tokenizer.encode("Once upon a time")
    [403, 407, 261, 378]
    """

    __slots__ = ("_path", "_tokenizer")

    @checked
    def __init__(self, path: Path) -> None:
        self._path = os.fspath(path)
        found = _detent.find_tokenizer(self._path)
        if found is None:
            from detent._errors import Error

            raise Error(
                f"{self._path}: no tokenizer is there: expected a folder with tokenizer.json or tokenizer.model, or a GGUF file"
            )
        self._tokenizer = found

    @checked
    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Ids of tokens. add_special_tokens: with what the tokenizer puts around a text, such as the token that begins it."""
        return self._tokenizer.encode(text, add_special_tokens)

    @checked
    def decode(self, ids: Any, *, skip_special_tokens: bool = True) -> str:
        """The text of ids: a list or an array of integers. Bytes that are no UTF-8 are U+FFFD."""
        return self._tokenizer.decode(ids, skip_special_tokens)

    @checked
    def apply_chat_template(
        self,
        messages: Sequence[Message],
        *,
        add_generation_prompt: bool = True,
        tokenize: bool = True,
        chat_template: str | None = None,
    ) -> Any:
        """Messages as the model was trained on them: ids of tokens, or, without `tokenize`, a text.

        messages: dicts with role ("system", "user", "assistant") and content. add_generation_prompt: and what an answer
        begins with. chat_template: another one than the model's, in Jinja. Raises Error where the model has none, and where
        it asks for what is not there.
        """
        text = self._chat_text(messages, add_generation_prompt, chat_template)
        return self.encode(text, add_special_tokens=False) if tokenize else text

    def _chat_text(self, messages: Sequence[Message], add_generation_prompt: bool, chat_template: str | None) -> str:
        name = "chat_template"
        if chat_template is None:
            chat_template = _detent.find_chat_template(self._path)
            if chat_template is None:
                from detent._errors import Error

                raise Error(f"{self._path}: no chat template comes with it: chat_template gives one")
            name = f"{self._path}: chat template"
        expected = "a list of dicts with role and content"
        given = listed("messages", messages, expected)
        if not all(isinstance(message, Mapping) and {"role", "content"} <= message.keys() for message in given):
            raise TypeError(f"messages: expected {expected}")
        given = [{key: checked_argument(key, message[key], "str") for key in ("role", "content")} for message in given]
        return _detent.chat_text(chat_template, name, given, self._tokenizer, add_generation_prompt)

    @checked
    def token(self, id: int) -> str:
        """As the vocabulary spells it; "" of an id without a token."""
        return self._tokenizer.token(id)

    @checked
    def id_of(self, token: str) -> int | None:
        """The id of a token that is spelled so, None where there is none."""
        return self._tokenizer.id_of(token)

    @property
    def special_tokens(self) -> dict[str, int]:
        """Ids of tokens with a role, those that are there: bos, eos, unk, pad, sep, cls, mask."""
        return self._tokenizer.special_tokens()

    def __reduce__(self) -> Any:
        return Tokenizer, (self._path,)

    def __len__(self) -> int:
        """One more than the largest id."""
        return self._tokenizer.vocabulary_size()

    def __repr__(self) -> str:
        return f"<detent.Tokenizer {self._tokenizer.description()}>"


@dataclass(frozen=True)
class GeneratedToken:
    """A token, and the text that it adds for certain, never half a character: what `print` shows.

    token: its id; None of text that was held back until the end.
    """

    token: int | None
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class GeneratedText:
    """One of several texts that were continued beside each other, as `detent generate --json` has it: the fields are those
    of `Generation`.
    """

    text: str
    tokens: list[int]
    stopped_by: str
    prompt_tokens: int

    def __str__(self) -> str:
        return self.text


class Generation(Iterator[GeneratedToken]):
    """A text that is being continued: an iterator over its tokens as they come.

    `text`, `tokens`, `stopped_by` and `to_dict()` wait for the end. After an interruption it goes on where it was.

    >>> for token in net.generate("Once upon a time"):
    ...     print(token, end="", flush=True)
    """

    __slots__ = ("_generation", "_seconds")

    def __reduce__(self) -> Any:
        raise TypeError("Generation: is not pickled or copied: to_dict() gives the whole")

    def __init__(self, generation: _detent.Generation) -> None:
        self._generation = generation
        self._seconds = 0.0

    def __iter__(self) -> Generation:
        return self

    def __next__(self) -> GeneratedToken:
        """The next one. Raises StopIteration at the end."""
        begin = time.monotonic()
        try:
            piece = self._generation.next()
        finally:
            self._seconds += time.monotonic() - begin
        if piece is None:
            raise StopIteration
        return GeneratedToken(*piece)

    def to_dict(self) -> dict[str, Any]:
        """The whole, as `detent generate --json` has it: text, tokens, stopped_by, prompt_tokens, seconds."""
        for _ in self:
            pass
        return {**self._generation.generated(), "seconds": self._seconds}

    @property
    def text(self) -> str:
        """All that was added, without the stop string; "" where there is no tokenizer."""
        text: str = self.to_dict()["text"]
        return text

    @property
    def tokens(self) -> list[int]:
        """Ids, that of the token which ended the text too."""
        tokens: list[int] = self.to_dict()["tokens"]
        return tokens

    @property
    def stopped_by(self) -> str:
        """"end": a token that ends texts; "stop": a stop string; "length": max_tokens."""
        stopped_by: str = self.to_dict()["stopped_by"]
        return stopped_by

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        found = self._generation.generated()
        return f"<detent.Generation: {len(found['tokens'])} tokens, {found['stopped_by'] or 'going on'}>"


@dataclass(frozen=True)
class Perplexity(Result):
    """What `Network.perplexity` gave: what `detent perplexity` prints, as data.

    perplexity: exp of mean_loss, lower is better. perplexity_error: its standard error. mean_loss: of the scored tokens, in
    nats. top_accuracy: how often the most likely token is the text's. scored_tokens, text_tokens: their numbers. windows:
    protocol, count, tokens and stride. losses: of each scored token, float64. reference: perplexity, mean_loss, kl_mean,
    kl_median, kl_99_percent, kl_largest, top_agreement and changed_answers; None where nothing was compared.
    """

    perplexity: float
    perplexity_error: float
    mean_loss: float
    top_accuracy: float
    scored_tokens: int
    text_tokens: int
    windows: dict[str, Any]
    losses: NDArray[np.float64]
    reference: dict[str, float] | None = None

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, as `detent perplexity --json` has them: without `losses`."""
        return {name: value for name, value in self.__dict__.items() if name != "losses" and value is not None}

    def __str__(self) -> str:
        return f"{self.perplexity:.6f} +- {self.perplexity_error:.6f} ({self.scored_tokens} tokens)"

    def _repr_html_(self) -> str:
        return f"<p>perplexity <b>{escape(str(self))}</b></p>"


@dataclass(frozen=True)
class FormatPerplexities(Result):
    """The perplexity of a network in several number formats: what `detent perplexity --formats` prints, as data.

    formats: a dict each, of the network as it is ("float") first: format, bits_a_weight, bits_an_activation, perplexity,
    standard_error, and of_float, the ratio to the first. scored_tokens: their number. window: its tokens.
    """

    formats: list[dict[str, Any]]
    scored_tokens: int
    window: int

    def __str__(self) -> str:
        return "\n".join(f"{row['format']}: {row['perplexity']:.4f}" for row in self.formats)


@dataclass(frozen=True)
class Answers(Result):
    """How often a language model chose the right answer: what `detent perplexity --task` prints, as data.

    questions: their number. accuracy: the share that the likeliest choice is right of. standard_error: of that.
    accuracy_per_byte: by the likelihood per byte, which is fair to long choices. reference: accuracy, agreement and
    changed_answers; None where nothing was compared.
    """

    questions: int
    accuracy: float
    standard_error: float
    accuracy_per_byte: float
    reference: dict[str, float] | None = None

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, as `detent perplexity --json` has them."""
        return {name: value for name, value in self.__dict__.items() if value is not None}


def thread_limit(num_threads: int | None) -> int:
    if num_threads is not None and not 1 <= num_threads <= MOST_THREADS:
        raise ValueError(f"num_threads: got {num_threads}, expected 1 to {MOST_THREADS}")
    return num_threads or MOST_THREADS


class TextSource:
    """Finds the tokenizer of a network when it is first asked for."""

    def __init__(self, source: str) -> None:
        self.source = source
        self._tokenizer: Tokenizer | None = None

    def tokenizer(self, given: Tokenizer | Path | None) -> Tokenizer:
        if given is not None:
            return given if isinstance(given, Tokenizer) else Tokenizer(checked_argument("tokenizer", given, "Path"))
        if self._tokenizer is None:
            self._tokenizer = Tokenizer(self.source)
        return self._tokenizer

    def tokenizer_or_none(self, given: Tokenizer | Path | None) -> Tokenizer | None:
        if given is None and self._tokenizer is None and _detent.find_tokenizer(self.source) is None:
            return None
        return self.tokenizer(given)

    def scored_text(
        self, text: str | os.PathLike[str] | None, ids: Any, options: dict[str, Any], tokenizer: Tokenizer | Path | None
    ) -> tuple[Any, _detent.TextTokenizer | None]:
        """Ids or their file, and the tokenizer that says what begins a text."""
        chosen = None
        if text is not None:
            chosen = self.tokenizer(tokenizer)
            if not isinstance(text, str):
                with open(text, "rb") as file:
                    text = file.read().decode(errors="replace")
            ids = chosen.encode(text)
        elif options["protocol"] == "halves":
            chosen = self.tokenizer_or_none(tokenizer)
        return os.fspath(ids) if isinstance(ids, os.PathLike) else ids, None if chosen is None else chosen._tokenizer


def format_perplexities(
    graph: _detent.NetworkGraph,
    formats: Sequence[Any],
    text: str | os.PathLike[str] | None,
    ids: Any,
    options: dict[str, Any],
    *,
    tokenizer: Tokenizer | Path | None,
    num_threads: int | None,
) -> FormatPerplexities:
    pairs = listed("formats", formats, "a list of formats, or of pairs of weights' and activations' format")
    texts = ["/".join(map(str, one)) if isinstance(one, tuple) else str(one) for one in pairs]
    ids, chosen = TextSource(graph.source()).scored_text(text, ids, options, tokenizer)
    return FormatPerplexities(
        **_detent.format_perplexities(graph, ids, texts, options, chosen, thread_limit(num_threads))
    )


class LanguageModel(TextSource):
    """What a network needs to continue texts, made when it is first asked for."""

    def __init__(self, graph: _detent.NetworkGraph, cache_format: str = "") -> None:
        super().__init__(graph.source())
        self.cache_format = cache_format
        self.model = _detent.LanguageModel(graph, cache_format)

    def chat_ids(self, messages: Sequence[Message], tokenizer: Tokenizer, chat_template: str | None) -> list[int]:
        """By the template of the network, whatever the tokenizer's is."""
        template = chat_template or _detent.find_chat_template(self.source)
        return list(tokenizer.apply_chat_template(messages, chat_template=template))

    def generate(
        self,
        prompt: Any,
        options: dict[str, Any],
        *,
        chat: bool,
        system: str | None,
        chat_template: str | None,
        tokenizer: Tokenizer | Path | None,
        num_threads: int | None,
    ) -> Generation:
        messages = [] if system is None else [{"role": "system", "content": system}]
        is_list = isinstance(prompt, (list, tuple)) and len(prompt) > 0 and isinstance(prompt[0], Mapping)
        if is_list or chat:
            if not (is_list or isinstance(prompt, str)):
                raise TypeError(f"prompt: got {type(prompt).__name__}, expected a message or a list of messages")
            messages += list(prompt) if is_list else [{"role": "user", "content": prompt}]
            chosen: Tokenizer | None = self.tokenizer(tokenizer)
            ids: Any = self.chat_ids(messages, self.tokenizer(tokenizer), chat_template)
        elif system is not None or chat_template is not None:
            raise ValueError("system and chat_template belong to chat=True, or to a list of messages")
        elif isinstance(prompt, str):
            chosen = self.tokenizer(tokenizer)
            ids = chosen.encode(prompt)
        else:
            chosen = self.tokenizer(tokenizer) if options["stop"] else self.tokenizer_or_none(tokenizer)
            ids = prompt
        limit = thread_limit(num_threads)
        return Generation(self.model.start(ids, options, None if chosen is None else chosen._tokenizer, limit))

    def generate_batch(
        self,
        prompts: Sequence[Any],
        num_sequences: int,
        options: dict[str, Any],
        *,
        tokenizer: Tokenizer | Path | None,
        num_threads: int | None,
    ) -> list[GeneratedText]:
        prompts = listed("prompts", prompts, "a list of texts, or of lists of ids")
        needs_one = bool(options["stop"]) or any(isinstance(prompt, str) for prompt in prompts)
        chosen = self.tokenizer(tokenizer) if needs_one else self.tokenizer_or_none(tokenizer)
        ids = [prompt if chosen is None or not isinstance(prompt, str) else chosen.encode(prompt) for prompt in prompts]
        given = None if chosen is None else chosen._tokenizer
        limit = thread_limit(num_threads)
        return [GeneratedText(**found) for found in self.model.generate(ids, num_sequences, options, given, limit)]

    def perplexity(
        self,
        text: str | os.PathLike[str] | None,
        ids: Any,
        options: dict[str, Any],
        *,
        tokenizer: Tokenizer | Path | None,
        reference: LanguageModel | None,
        reference_logits: Any,
        save_logits: Path | None,
        losses: Path | None,
        overwrite: bool,
        num_threads: int | None,
    ) -> Perplexity:
        ids, chosen = self.scored_text(text, ids, options, tokenizer)
        if isinstance(reference_logits, os.PathLike):
            reference_logits = os.fspath(reference_logits)
        found = self.model.perplexity(
            ids,
            options,
            chosen,
            None if reference is None else reference.model,
            reference_logits,
            "" if save_logits is None else os.fspath(save_logits),
            "" if losses is None else os.fspath(losses),
            overwrite,
            thread_limit(num_threads),
        )
        return Perplexity(**found)

    def answers(
        self,
        task: Any,
        *,
        tokenizer: Tokenizer | Path | None,
        reference: LanguageModel | None,
        num_threads: int | None,
    ) -> Answers:
        chosen = self.tokenizer_or_none(tokenizer)
        found = self.model.answers(
            os.fspath(task) if isinstance(task, os.PathLike) else task if isinstance(task, str) else list(task),
            None if chosen is None else chosen._tokenizer,
            None if reference is None else reference.model,
            thread_limit(num_threads),
        )
        return Answers(**found)
