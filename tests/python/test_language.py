"""Language models from Python do what the commands do."""

from __future__ import annotations

import copy
import json
import logging
import pathlib
import pickle
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from tiny_llama import LETTERS

import detent

TEXT = "ABCabcXYZxyzQRSTqrstLMNOPlmnop" * 3


@pytest.fixture(scope="module")
def language_model(language_folder) -> detent.Network:
    return detent.load(language_folder)


def test_a_text_longer_than_the_network_was_made_for_is_warned_of(language_model, caplog):
    context = 512  # max_position_embeddings of tiny_llama.py
    with caplog.at_level(logging.WARNING, "detent"):
        language_model.generate("ABC", max_tokens=2)
        assert "the network was made for" not in caplog.text
        next(iter(language_model.generate("ABC", max_tokens=context)))
        assert f"the network was made for {context}" in caplog.text


def of_command(program, command, folder, *options) -> list[dict]:
    done = subprocess.run([program, command, folder, *options, "--json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    if command == "perplexity":
        about = ("schema", "schema_version", "command", "version", "warnings")
        return {key: value for key, value in json.loads(done.stdout).items() if key not in about}
    return [json.loads(line) for line in done.stdout.splitlines()]


GENERATED = [
    ({}, []),
    ({"max_tokens": 7, "ignore_eos": True}, ["--max-tokens", "7", "--ignore-eos"]),
    (
        {"temperature": 1.5, "top_p": 0.9, "top_k": 40, "min_p": 0.01, "seed": 7, "repetition_penalty": 1.2, "max_tokens": 30},
        ["--temperature", "1.5", "--top-p", "0.9", "--top-k", "40", "--min-p", "0.01", "--seed", "7", "--repetition-penalty",
         "1.2", "--max-tokens", "30"],
    ),
    ({"stop": ["a", "X"], "temperature": 2, "ignore_eos": True}, ["--stop", "a", "--stop", "X", "--temperature", "2", "--ignore-eos"]),
    ({"chat": True, "system": "B", "max_tokens": 9}, ["--chat", "--system", "B", "--max-tokens", "9"]),
    ({"num_threads": 1, "max_tokens": 5}, ["--num-threads", "1", "--max-tokens", "5"]),
    ({"cache_format": "int4", "max_tokens": 20}, ["--cache-format", "int4", "--max-tokens", "20"]),
]  # fmt: skip


@pytest.mark.parametrize(("options", "flags"), GENERATED, ids=[" ".join(flags) or "defaults" for _, flags in GENERATED])
def test_generates_what_the_command_does(program, language_folder, language_model, options, flags):
    *pieces, whole = of_command(program, "generate", language_folder, "--prompt", "ABC", *flags)
    generation = language_model.generate("ABC", **options)
    assert isinstance(generation, detent.Generation)
    tokens = list(generation)
    assert all(isinstance(token, detent.GeneratedToken) for token in tokens)
    assert [(token.token, token.text) for token in tokens] == [(piece.get("token"), piece["text"]) for piece in pieces]
    found = generation.to_dict()
    assert found.pop("seconds") >= 0
    whole.pop("seconds")
    assert found == whole
    assert (generation.text, generation.tokens, generation.stopped_by) == (whole["text"], whole["tokens"], whole["stopped_by"])
    assert str(generation) == "".join(map(str, tokens)) == whole["text"]
    assert "tokens" in repr(generation)


def test_batch_is_that_of_the_command(program, language_folder, language_model):
    flags = ["--prompt", "ABC", "--prompt", "xyz", "--num-sequences", "2", "--temperature", "1.5", "--max-tokens", "9"]
    lines = of_command(program, "generate", language_folder, *flags)
    wholes = sorted((line for line in lines if "stopped_by" in line), key=lambda line: line["sequence"])
    found = language_model.generate_batch(["ABC", "xyz"], num_sequences=2, temperature=1.5, max_tokens=9)
    assert all(isinstance(text, detent.GeneratedText) for text in found)
    assert [text.tokens for text in found] == [line["tokens"] for line in wholes]
    assert [str(text) for text in found] == [line["text"] for line in wholes]
    assert found[3].tokens == language_model.generate("xyz", temperature=1.5, max_tokens=9, seed=1).tokens
    assert [text.tokens for text in language_model.generate_batch([[1, 2, 3]], max_tokens=2)] == [
        language_model.generate([1, 2, 3], max_tokens=2).tokens
    ]
    for prompts, options in ((["A"], {"num_sequences": 0}), ("ABC", {}), (["A"], {"top": 3}), ([""], {})):
        with pytest.raises((detent.Error, TypeError)):
            language_model.generate_batch(prompts, **options)


def test_takes_ids_and_messages(program, language_folder, language_model):
    expected = of_command(program, "generate", language_folder, "--prompt-ids", "5,17,30", "--max-tokens", "6")[-1]["tokens"]
    for ids in ([5, 17, 30], (5, 17, 30), np.array([5, 17, 30]), np.int32([5, 17, 30])):
        assert language_model.generate(ids, max_tokens=6).tokens == expected
    messages = [{"role": "system", "content": "B"}, {"role": "user", "content": "ABC"}]
    chat = language_model.generate(messages, max_tokens=9)
    assert chat.tokens == language_model.generate("ABC", chat=True, system="B", max_tokens=9).tokens
    plain = "{{ messages[0].content }}"
    assert language_model.generate("ABC", chat=True, chat_template=plain, max_tokens=4).tokens == language_model.generate("ABC", max_tokens=4).tokens


def test_several_at_once(language_model):
    alone = [language_model.generate("ABC", max_tokens=40, temperature=1, seed=seed).tokens for seed in range(4)]
    found = [None] * 4

    def work(seed):
        found[seed] = language_model.generate("ABC", max_tokens=40, temperature=1, seed=seed).tokens

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == alone


def test_one_text_from_two_threads(language_model):
    expected = language_model.generate("ABC", max_tokens=60, ignore_eos=True).tokens
    generation = language_model.generate("ABC", max_tokens=60, ignore_eos=True)
    parts = [[], []]
    threads = [threading.Thread(target=lambda part=part: part.extend(generation)) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(t.token for part in parts for t in part if t.token is not None) == sorted(expected)
    assert generation.tokens == expected


@pytest.mark.parametrize(
    ("prompt", "options", "error", "text"),
    [
        ("", {}, detent.Error, "no tokens"),
        ([], {}, detent.Error, "no tokens"),
        (3, {}, TypeError, "prompt: got int"),
        (None, {}, TypeError, "prompt: got NoneType"),
        ([1.5], {}, TypeError, "prompt: got list"),
        (np.float32([1]), {}, TypeError, "prompt"),
        ("A", {"max_tokens": 0}, detent.Error, "max_tokens"),
        ("A", {"top_p": 2}, detent.Error, "top_p"),
        ("A", {"stop": [""]}, detent.Error, "stop"),
        ("A", {"system": "B"}, ValueError, "chat=True"),
        ("A", {"num_threads": 0}, ValueError, "num_threads"),
        ("A", {"cache_format": "int4_g32"}, detent.Error, "cache_format"),
        ([61], {"max_tokens": 2}, detent.Error, "61"),
        ([-1], {"max_tokens": 2}, detent.Error, "-1"),
        ([3], {"chat": True}, TypeError, "prompt"),
        ("A", {"tokenizer": "nowhere"}, detent.Error, "no tokenizer"),
    ],
)
def test_wrong_prompts_raise(language_model, prompt, options, error, text):
    with pytest.raises(error, match=text):
        list(language_model.generate(prompt, **options))
    assert len(language_model.generate("A", max_tokens=2, ignore_eos=True).tokens) == 2


def test_other_networks_are_refused(net):
    with pytest.raises(detent.Error):
        net.generate([1, 2])
    with pytest.raises(detent.Error, match="no tokenizer"):
        net.tokenizer  # noqa: B018
    with pytest.raises(detent.Error):
        net.perplexity(ids=[1, 2, 3], window=2)


def test_has_every_option_of_the_commands(program):
    import inspect
    import re

    of_prompts = dict.fromkeys(("prompt_ids", "print_ids", "json", "help", "num_sequences"), "prompt")  # generate_batch
    for command, method, other in (
        ("generate", detent.Network.generate, of_prompts),
        ("perplexity", detent.Network.perplexity, {"json": "text", "help": "text"}),
    ):
        shown = subprocess.run([program, command, "--help"], capture_output=True, text=True, check=True).stdout
        flags = {flag.replace("-", "_") for flag in re.findall(r"^ +(?:-\w, )?--([a-z-]+)", shown, re.M)}
        parameters = inspect.signature(method).parameters
        assert len(flags) > 10
        for flag in flags - {"help_all"}:
            assert other.get(flag, flag) in parameters, flag


def test_tokenizer(language_folder, language_model):
    tokenizer = language_model.tokenizer
    assert isinstance(tokenizer, detent.Tokenizer)
    ids = tokenizer.encode("ABz")
    assert ids == [1, 2, LETTERS.index("z") + 1]
    assert tokenizer.decode(ids) == tokenizer.decode(np.array(ids)) == "ABz"
    assert tokenizer.decode([0, 1], skip_special_tokens=False) == "</s>A"
    assert (tokenizer.token(1), tokenizer.id_of("A"), tokenizer.id_of("none")) == ("A", 1, None)
    assert tokenizer.special_tokens["eos"] == 0
    assert len(tokenizer) == len(LETTERS) + 1
    messages = [{"role": "user", "content": "A"}, {"role": "assistant", "content": "B"}]
    assert tokenizer.apply_chat_template(messages, tokenize=False) == "uAaBa"
    assert tokenizer.apply_chat_template(messages, add_generation_prompt=False) == tokenizer.encode("uAaB")
    assert tokenizer.apply_chat_template(messages, chat_template="{{ messages[1].content }}") == tokenizer.encode("B")
    assert detent.Tokenizer(language_folder).encode("A") == detent.Tokenizer(language_folder / "model.safetensors").encode("A") == [1]
    of_file = detent.Tokenizer(language_folder / "tokenizer.json")
    assert of_file.encode("ABz") == ids
    assert of_file.apply_chat_template(messages, tokenize=False) == "uAaBa"
    with pytest.raises(detent.Error, match="tokenizer_2.json"):
        detent.Tokenizer(language_folder / "tokenizer_2.json")
    assert pickle.loads(pickle.dumps(tokenizer)).encode("A") == copy.deepcopy(tokenizer).encode("A") == [1]
    with pytest.raises(TypeError, match=r"Generation: is not pickled or copied: to_dict\(\)"):
        copy.copy(language_model.generate("A", max_tokens=1))
    with pytest.raises(TypeError):
        tokenizer.apply_chat_template([{"role": "user"}])
    with pytest.raises(TypeError):
        tokenizer.encode(3)
    with pytest.raises(detent.Error, match="nowhere: no tokenizer is there: expected a folder"):
        detent.Tokenizer("nowhere")
    with pytest.raises(TypeError):
        tokenizer.decode("A")


MEASURED = [
    ({"window": 20}, ["--window", "20"]),
    ({"window": 20, "stride": 7, "windows": 5}, ["--window", "20", "--stride", "7", "--windows", "5"]),
    ({"window": 20, "protocol": "halves", "num_threads": 1}, ["--window", "20", "--protocol", "halves"]),
]


@pytest.mark.parametrize(("options", "flags"), MEASURED, ids=[" ".join(flags) for _, flags in MEASURED])
def test_perplexity_is_that_of_the_command(program, language_folder, language_model, tmp_path, options, flags):
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    expected = of_command(program, "perplexity", language_folder, "--text", path, "--losses", tmp_path / "losses.npy", *flags)
    found = language_model.perplexity(TEXT, losses=tmp_path / "ours.npy", **options)
    assert isinstance(found, detent.Perplexity)
    assert found.to_dict() == expected
    np.testing.assert_array_equal(found.losses, np.load(tmp_path / "losses.npy"))
    assert (tmp_path / "ours.npy").read_bytes() == (tmp_path / "losses.npy").read_bytes()
    assert found.to_dict() == language_model.perplexity(path, **options).to_dict()
    ids = language_model.tokenizer.encode(TEXT)
    np.save(tmp_path / "ids.npy", ids)
    for given in (ids, np.array(ids), tmp_path / "ids.npy"):
        assert language_model.perplexity(ids=given, **options).to_dict() == expected
    assert f"{found.perplexity:.6f}" in str(found)
    assert "<b>" in found._repr_html_()


def test_perplexity_of_formats_is_that_of_the_command(program, language_folder, language_model, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    flags = ["--window", "20", "--windows", "2", "--formats", "int8", "block_fp:width=4", "int8/fp8_e4m3fn"]
    expected = of_command(program, "perplexity", language_folder, "--text", path, *flags)
    formats = ["int8", detent.Format("block_fp:width=4"), ("int8", detent.Format("fp8_e4m3fn"))]
    for text in (path, TEXT):
        found = language_model.perplexity(text, window=20, windows=2, formats=formats)
        assert isinstance(found, detent.FormatPerplexities)
        assert found.to_dict() == expected
    assert [row["format"] for row in found.formats] == ["float", "int8", "block_fp:width=4", "int8/fp8_e4m3fn"]
    assert str(found).startswith("float: ")
    ids = language_model.tokenizer.encode(TEXT)
    assert language_model.perplexity(ids=ids, window=20, windows=2, formats=formats).to_dict() == expected


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"formats": []}, TypeError, "list of formats"),
        ({"formats": "int8"}, TypeError, "list of formats"),
        ({"formats": ["int9000"]}, detent.Error, "^formats"),
        ({"formats": ["int8"], "cache_format": "int8"}, ValueError, "takes the place"),
        ({"formats": ["int8"], "losses": "losses.npy"}, ValueError, "takes the place"),
        ({"formats": ["int8"], "window": 1}, detent.Error, "window"),
    ],
)
def test_wrong_formats_raise(language_model, options, error, text):
    with pytest.raises(error, match=text):
        language_model.perplexity(TEXT, **options)


def test_quantizes_keys_and_values(language_model):
    ids = np.tile(language_model.tokenizer.encode(TEXT)[:16], (8, 1))
    small = language_model.quantize(ids, cache_format="int4", analyze=False).network
    assert len(small.generate([1, 2, 3], max_tokens=4).tokens) > 0
    with pytest.raises(detent.Error, match="quantized already"):
        small.generate([1, 2, 3], cache_format="int8")
    with pytest.raises(detent.Error, match="cache_format"):
        language_model.quantize(ids, cache_format="int16", analyze=False)


def test_runs_and_calibrates_with_ids_alone(language_model, tmp_path):
    ids = np.tile(language_model.tokenizer.encode(TEXT)[:16], (8, 1))
    mask = np.ones_like(ids)
    logits = language_model.run({"input_ids": ids, "attention_mask": mask})["logits"]
    for inputs in (ids, {"input_ids": ids}):
        np.testing.assert_array_equal(language_model.run(inputs)["logits"], logits)
    with pytest.raises(detent.Error, match="input_ids is missing"):
        language_model.run({"attention_mask": mask})
    graphs = set()
    for i, samples in enumerate((ids, [{"input_ids": ids}], [{"input_ids": ids, "attention_mask": mask}])):
        language_model.quantize(samples, analyze=False).network.save(tmp_path / f"{i}.mz")
        graphs.add((tmp_path / f"{i}.mz").read_bytes())
    assert len(graphs) == 1
    with pytest.raises(TypeError, match="got the inputs attention_mask, expected input_ids, attention_mask"):
        language_model.quantize([{"attention_mask": mask}])


def test_saves_what_generates(language_folder, language_model, tmp_path):
    ids = np.tile(language_model.tokenizer.encode(TEXT)[:16], (8, 1))
    quantized = language_model.quantize(ids, weights="int8", activations="float32", analyze=False).network
    (tmp_path / "saved").mkdir()
    for name in ("a.mz", "b.mz"):
        quantized.save(tmp_path / "saved" / name)
    loaded = detent.load(tmp_path / "saved" / "b.mz")
    assert loaded.tokenizer.encode(TEXT) == language_model.tokenizer.encode(TEXT)
    assert loaded.generate("ABC", max_tokens=9).text == quantized.generate("ABC", max_tokens=9).text
    for name in ("tokenizer.json", "tokenizer_config.json"):
        if (language_folder / name).exists():
            assert (tmp_path / "saved" / name).read_bytes() == (language_folder / name).read_bytes()
    (tmp_path / "saved" / "tokenizer.json").write_text("{}")
    with pytest.raises(detent.Error, match="tokenizer.json: it would be replaced"):
        quantized.save(tmp_path / "saved" / "c.mz")
    assert not (tmp_path / "saved" / "c.mz").exists()
    language_model.search(ids, min_sqnr=1.0, weights=["int8", "int4"], evaluations=2, folder=tmp_path / "search")
    assert detent.load(tmp_path / "search" / "best.mz").tokenizer.encode(TEXT) == loaded.tokenizer.encode(TEXT)


def test_perplexity_compares(program, language_folder, language_model, tmp_path):
    quantized = language_model.quantize(np.tile(language_model.tokenizer.encode(TEXT)[:16], (8, 1)), weights="int4", analyze=False).network
    quantized.save(tmp_path / "quantized.mz")
    np.save(tmp_path / "ids.npy", language_model.tokenizer.encode(TEXT))
    expected = of_command(program, "perplexity", tmp_path / "quantized.mz", "--ids", tmp_path / "ids.npy", "--window", "20",
                          "--reference", language_folder)  # fmt: skip
    for reference in (language_model, language_folder):
        found = quantized.perplexity(TEXT, window=20, reference=reference)
        assert found.to_dict() == expected
    language_model.perplexity(TEXT, window=20, save_logits=tmp_path / "logits.npy")
    for logits in (tmp_path / "logits.npy", np.load(tmp_path / "logits.npy")):
        assert quantized.perplexity(TEXT, window=20, reference_logits=logits).to_dict() == expected
    with pytest.raises(detent.Error, match="exists"):
        language_model.perplexity(TEXT, window=20, save_logits=tmp_path / "logits.npy")
    with pytest.raises(ValueError, match="exclude each other"):
        language_model.perplexity(TEXT, reference=language_model, reference_logits=np.zeros((1, 1), np.float32))


def test_answers_are_those_of_the_command(program, language_folder, language_model, tmp_path):
    questions = [{"context": "AB", "choices": ["C", "xyz"], "answer": 0}, {"context": "xy", "choices": ["z", "A", "Q"], "answer": 2}]
    path = tmp_path / "task.jsonl"
    path.write_text("\n".join(map(json.dumps, questions)))
    expected = of_command(program, "perplexity", language_folder, "--task", path, "--reference", language_folder)["task"]
    for task in (questions, path, str(path)):
        found = language_model.perplexity(task=task, reference=language_model)
        assert isinstance(found, detent.Answers)
        assert found.to_dict() == expected
    with pytest.raises(detent.Error, match=r"task\[0\]"):
        language_model.perplexity(task=[{"context": "A", "choices": ["B"], "answer": 0}])
    with pytest.raises(ValueError, match="no questions"):
        language_model.perplexity(task=[])


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({}, TypeError, "one of text, ids and task"),
        ({"text": "A", "ids": [1]}, TypeError, "one of text, ids and task"),
        ({"text": "ABC"}, detent.Error, "512"),
        ({"text": TEXT, "window": 1}, detent.Error, "window"),
        ({"text": TEXT, "protocol": "half"}, detent.Error, "protocol"),
        ({"ids": np.float32([1, 2]), "window": 2}, TypeError, "ids"),
        ({"ids": [1, 99], "window": 2}, detent.Error, "99"),
        ({"text": pathlib.Path("/nowhere")}, OSError, None),
    ],
)
def test_wrong_texts_raise(language_model, options, error, text):
    with pytest.raises(error, match=text):
        language_model.perplexity(**options)


INTERRUPTED = """
import sys, time
import detent
import numpy  # which the work would import, and an interrupted import of it cannot be repeated
net = detent.load(sys.argv[1])
print("ready", flush=True)
try:
    while True:
        {work}
except KeyboardInterrupt:
    print(time.monotonic(), flush=True)
assert net.generate("A", max_tokens=3, ignore_eos=True).stopped_by == "length"
"""


@pytest.mark.parametrize("work", ['net.generate("AB", max_tokens=400, ignore_eos=True).text', 'net.perplexity("ABCx" * 4000)'])
def test_interruption_ends_it(language_folder, work):
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED.format(work=work), language_folder], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.5)
    sent = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert float(out) - sent < 3, "a second, on a machine that does nothing else"


def test_an_interruption_while_a_message_is_logged_is_not_lost(language_model):
    class Interrupting(logging.Handler):
        def emit(self, record):
            signal.raise_signal(signal.SIGINT)

    handler = Interrupting()
    logger = logging.getLogger("detent")
    logger.addHandler(handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            next(iter(language_model.generate("ABC", max_tokens=512)))
    finally:
        logger.removeHandler(handler)
    assert language_model.generate("A", max_tokens=3, ignore_eos=True).stopped_by == "length"
