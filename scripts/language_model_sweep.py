#!/usr/bin/env python3
"""Compares `detent run` with transformers on random tiny networks of every text model_type.

    scripts/language_model_sweep.py build/bin/detent [MODEL_TYPE ...] [--fields] [--heads] [--keep DIR]

Prints a line per model_type: equal, refused or WRONG. With --fields, each field of the config takes other
values in turn: a field that Detent neither follows nor refuses shows as WRONG. Logits of transformers are in
float64; equal is within 1e-5 of the largest, or four times what transformers in float32 is away. Needs torch and transformers.
"""

import argparse
import copy
import json
import os
import shutil
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import CONFIG_MAPPING, AutoModel, AutoModelForCausalLM, AutoModelForTextEncoding

TOKENS = 24
VOCABULARY = 97
TOLERANCE = 1e-5

SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 48, "d_model": 48, "n_embd": 48, "dim": 48, "embedding_size": 48, "n_embed": 48,
    "num_hidden_layers": 4, "n_layer": 4, "n_layers": 4, "num_layers": 4, "encoder_layers": 4,
    "num_attention_heads": 6, "n_head": 6, "n_heads": 6, "num_heads": 6, "num_key_value_heads": 3, "num_kv_heads": 3,
    "intermediate_size": 40, "ffn_dim": 40, "hidden_dim": 40, "n_inner": 40, "d_ff": 40, "ffn_hidden_size": 40,
    "encoder_ffn_dim": 40, "moe_intermediate_size": 24, "shared_expert_intermediate_size": 20,
    "max_position_embeddings": 64, "n_positions": 64, "max_seq_len": 64, "n_ctx": 64, "seq_length": 64,
    "word_embed_proj_dim": 48, "d_kv": 8, "head_dim": 8, "rotary_dim": 4, "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 12, "v_head_dim": 10, "q_lora_rank": 14, "kv_lora_rank": 18, "n_group": 2, "topk_group": 1,
    "n_routed_experts": 8, "num_experts": 8, "num_local_experts": 8, "num_experts_per_tok": 3,
    "moe_num_experts": 8, "moe_k": 3, "n_shared_experts": 1, "first_k_dense_replace": 1,
    "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
    "attention_window": 8, "local_attention": 8, "window_size": 5,
    "attention_dropout": 0.0, "hidden_dropout": 0.0, "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
DEBERTA = {
    "relative_attention": True, "position_buckets": 8, "max_relative_positions": 12, "pos_att_type": ["p2c", "c2p"],
    "share_att_key": True, "norm_rel_ebd": "layer_norm", "position_biased_input": False, "conv_kernel_size": 3,
    "conv_act": "gelu", "conv_groups": 2, "type_vocab_size": 0,
}
USUAL_HEADS = ["SequenceClassification", "TokenClassification", "MaskedLM", "QuestionAnswering"]
HEADS = {
    "deberta-v2": USUAL_HEADS, "roberta": USUAL_HEADS, "xlm-roberta": USUAL_HEADS, "camembert": USUAL_HEADS,
    "mpnet": USUAL_HEADS, "distilbert": USUAL_HEADS, "modernbert": USUAL_HEADS,
    "bert": USUAL_HEADS + ["NextSentencePrediction", "PreTraining"], "albert": USUAL_HEADS + ["PreTraining"],
    "electra": USUAL_HEADS + ["PreTraining"], "nomic_bert": USUAL_HEADS[:3], "eurobert": USUAL_HEADS[:3],
}
ENCODERS_OF_PAIRS = ("t5", "mt5", "umt5")  # networks of an encoder and a decoder, of which Detent runs the first
LISTS = {"layer_types", "mlp_layer_types", "no_rope_layers", "attention_types", "attention_layers",
         "head_dim_list", "moe_layers", "mlp_only_layers"}


def tiny(model_type, changes=None):
    """A config of small sizes; lists by layer follow from the rest."""
    base = CONFIG_MAPPING[model_type]()
    keys = set(base.to_dict()) | set(getattr(base, "attribute_map", {}))
    given = {k: v for k, v in SIZES.items() if k in keys}
    for k, v in list(given.items()):
        alias = base.attribute_map.get(k)
        if alias and alias in given:
            del given[k]
    if model_type == "bert" and "embedding_size" in given:
        del given["embedding_size"]
    if model_type == "gpt_neo":
        given["attention_types"] = [[["global", "local"], 2]]
    if model_type in ("falcon", "mpt", "bloom"):
        given.pop("num_key_value_heads", None)
    if "kv_lora_rank" in given:
        given["num_key_value_heads"] = given["num_attention_heads"]
        given.pop("head_dim", None)
    if model_type == "deepseek_v2":
        given["topk_method"] = "group_limited_greedy"
    if model_type == "deberta-v2":
        given.update(DEBERTA)
    if model_type == "lfm2":
        given.update(block_multiple_of=8)
    if model_type in ("lfm2", "lfm2_moe"):
        given.update(layer_types=["conv", "full_attention"] * 2)
    if model_type == "lfm2_moe":
        given.update(num_dense_layers=1)
    changes = changes or {}
    given.update(changes)
    if base.to_dict().get("rope_parameters") and "rope_parameters" not in changes:
        pass
    return CONFIG_MAPPING[model_type](**given)


def attention_of(config):
    """Falcon adds its slopes twice in "eager"."""
    return "sdpa" if config.model_type == "falcon" else "eager"


def head_of(config):
    """The class of an encoder with a head, where the config names it."""
    names = config.architectures or []
    has_head = names and not names[0].endswith("Model")
    return getattr(transformers, names[0]) if has_head else None


def heads_of(model_type):
    """Names of classes with a head that the model_type has."""
    begin = CONFIG_MAPPING[model_type].__name__.replace("Config", "For")
    names = [begin + head for head in HEADS.get(model_type, ["SequenceClassification", "TokenClassification"])]
    return [name for name in names if hasattr(transformers, name)]


def result_of(config, is_causal):
    if (config.architectures or [""])[0].endswith("QuestionAnswering"):
        return "start_logits"
    if (config.architectures or [""])[0] in ("BertForPreTraining", "AlbertForPreTraining"):
        return "prediction_logits"
    return "logits" if is_causal else "last_hidden_state"


def network(config, seed=0):
    torch.manual_seed(seed)
    attention = attention_of(config)
    head = head_of(config)
    try:
        if head:
            raise ValueError
        if config.model_type in ENCODERS_OF_PAIRS:
            raise ValueError
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation=attention)
        is_causal = config.model_type not in ("bert", "roberta", "electra", "xlm-roberta", "camembert")
        if not is_causal:
            raise ValueError
    except Exception:
        kind = AutoModelForTextEncoding if config.model_type in ENCODERS_OF_PAIRS else AutoModel
        make = head._from_config if head else kind.from_config
        model = make(config, dtype=torch.float32, attn_implementation=attention)
        is_causal = head is not None
    model.eval()
    if hasattr(model, "set_experts_implementation"):
        try:
            model.set_experts_implementation("eager")
        except Exception:
            pass
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=generator)
            if p.dim() < 2:
                is_scale = "norm" in name.lower() or "ln_" in name or "layernorm" in name.lower()
                is_scale = is_scale and name.endswith("weight")
                p.copy_((1 if is_scale else 0) + 0.3 * noise)
            else:
                p.copy_(noise * (1.2 / p.shape[-1] ** 0.5))
    return model, is_causal


def old_form(config):
    """A config.json as transformers 4 wrote it."""
    old = copy.deepcopy(config)
    rope = old.pop("rope_parameters", None)
    if rope and all(not isinstance(v, dict) for v in rope.values()):
        rope = dict(rope)
        if "rope_theta" in rope:
            old["rope_theta"] = rope.pop("rope_theta")
        if "partial_rotary_factor" in rope:
            old["partial_rotary_factor"] = rope.pop("partial_rotary_factor")
        kind = rope.pop("rope_type", "default")
        old["rope_scaling"] = None if kind == "default" else {"rope_type": kind, **rope}
    elif rope:
        return None
    if "dtype" in old:
        old["torch_dtype"] = old.pop("dtype")
    return old


def compare(binary, config, folder, old=False):
    model, is_causal = network(config)
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    path = os.path.join(folder, "config.json")
    with open(path) as file:
        saved = json.load(file)
    if old:
        saved = old_form(saved)
        if saved is None:
            return "skipped", ""
        with open(path, "w") as file:
            json.dump(saved, file)
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(3, VOCABULARY, (2, TOKENS), generator=generator)
    mask = torch.ones_like(ids)
    if head_of(config) and config.pad_token_id is not None:
        ids[1, TOKENS - 3:] = config.pad_token_id
        mask[1, TOKENS - 3:] = 0
    name = result_of(config, is_causal)
    with torch.no_grad():
        single = getattr(model(input_ids=ids, attention_mask=mask), name).numpy()
        expected = getattr(model.double()(input_ids=ids, attention_mask=mask), name).numpy()
    if not np.isfinite(expected).all():
        return "skipped", "not finite"
    np.save(os.path.join(folder, "ids.npy"), ids.numpy())
    np.save(os.path.join(folder, "mask.npy"), mask.numpy())
    result = os.path.join(folder, "out")
    run = subprocess.run([binary, "run", folder, "--input", "input_ids=" + os.path.join(folder, "ids.npy"),
                          "attention_mask=" + os.path.join(folder, "mask.npy"),
                          "--output-dir", result], capture_output=True, text=True)
    if run.returncode != 0:
        return "refused", (run.stderr.strip().splitlines() or ["?"])[-1].replace(folder + "/", "")[:260]
    file = os.path.join(result, name + ".npy")
    if not os.path.exists(file):
        return "WRONG", "no " + name + ": " + ",".join(os.listdir(result))
    given = np.load(file).astype(np.float64)
    if given.shape != expected.shape:
        return "WRONG", f"{given.shape} for {expected.shape}"
    if given.shape[:2] == mask.shape:  # results of padding mean nothing
        given, single, expected = (np.where(mask.numpy().reshape(mask.shape + (1,) * (x.ndim - 2)), x, 0)
                                   for x in (given, single, expected))
    largest = max(np.abs(expected).max(), 1e-30)
    error = np.abs(given - expected).max() / largest
    of_floats = np.abs(single - expected).max() / largest
    return ("equal" if error <= max(TOLERANCE, 4 * of_floats) else "WRONG"), f"{error:.1e}"


def ropes(config):
    theta = config.get("rope_parameters") or {}
    if not theta or any(isinstance(v, dict) for v in theta.values()):
        return []
    share = theta.get("partial_rotary_factor", 1)
    heads = config.get("num_attention_heads") or 6
    size = config.get("qk_rope_head_dim") or config.get("head_dim") or (config.get("hidden_size") or 48) // heads
    half = int(size * share) // 2
    base = {k: v for k, v in theta.items() if k in ("rope_theta", "partial_rotary_factor")}
    short = [1 + 0.1 * i for i in range(half)]
    long = [2 + 0.3 * i for i in range(half)]
    return [{**base, **more} for more in (
        {"rope_theta": 500.0},
        {"rope_type": "linear", "factor": 3.0},
        {"rope_type": "dynamic", "factor": 3.0},
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 8.0,
         "beta_slow": 2.0, "attention_factor": 0.8, "truncate": False},
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "mscale": 0.7,
         "mscale_all_dim": 0.4},
        {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
         "original_max_position_embeddings": 32},
        {"rope_type": "longrope", "factor": 4.0, "original_max_position_embeddings": 16, "short_factor": short,
         "long_factor": long},
        {"rope_type": "longrope", "factor": 4.0, "original_max_position_embeddings": 40, "short_factor": short,
         "long_factor": long},
        {"partial_rotary_factor": 0.5},
    )]


SKIPPED = {"vocab_size", "model_type", "transformers_version", "architectures", "dtype", "torch_dtype", "bos_token_id",
           "eos_token_id", "pad_token_id", "sep_token_id", "cls_token_id", "return_dict", "output_hidden_states",
           "output_attentions", "use_cache", "initializer_range", "chunk_size_feed_forward", "problem_type",
           "id2label", "label2id", "_name_or_path", "name_or_path", "attention_dropout", "hidden_dropout",
           "hidden_dropout_prob", "embd_pdrop", "attn_pdrop", "resid_pdrop", "router_aux_loss_coef",
           "output_router_logits", "is_encoder_decoder", "pretraining_tp", "_attn_implementation"}
TEXTS = {"hidden_act": ["relu", "gelu", "gelu_new", "silu", "gelu_pytorch_tanh", "quick_gelu", "tanh", "relu2"],
         "position_embedding_type": ["relative_key"]}
TEXTS["pooler_hidden_act"] = TEXTS["conv_act"] = TEXTS["hidden_act"]
TEXTS["pos_att_type"] = [["c2p"], ["p2c"], "p2c|c2p", ["p2p", "c2p"], None]
TEXTS["norm_rel_ebd"] = ["none", "layer_norm|none", "batch_norm"]
TEXTS["hidden_activation"] = TEXTS["activation_function"] = TEXTS["activation"] = TEXTS["hidden_act"]


def other_values(key, value, layers):
    if key in TEXTS:
        return TEXTS[key]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [1, 2, 3, 5, 2 * value] if "group" not in key else [1]
    if isinstance(value, float):
        return [0.5 * value if value else 0.5, 2.0 * value, 0.1, 7.0]
    if value is None:
        return [True, 0.3, 2, 5]
    if key == "layer_types" and isinstance(value, list):
        kinds = ["full_attention", "conv" if "conv" in value else "sliding_attention"]
        return [[kinds[i % 2] for i in range(layers)], [kinds[i % 3 == 0] for i in range(layers)]]
    if key == "mlp_only_layers":
        return [[1]]
    return []


def variants_of_heads(model_type):
    for name in heads_of(model_type):
        labels = 2 if name.endswith(("QuestionAnswering", "NextSentencePrediction", "PreTraining")) else 5
        yield {"architectures": [name]}
        yield {"architectures": [name], "num_labels": labels, "pooler_hidden_act": "tanh", "hidden_act": "relu"}
        yield {"architectures": [name], "legacy": False, "tie_word_embeddings": False}
        if model_type == "eurobert":
            yield {"architectures": [name], "classifier_pooling": "bos", "mlp_bias": True}
        if model_type in ("eurobert", "modernbert"):
            yield {"architectures": [name], "classifier_pooling": "mean", "classifier_bias": True, "norm_bias": True}


def variants(model_type):
    base = tiny(model_type).to_dict()
    layers = base.get("num_hidden_layers") or base.get("n_layer") or 4
    for rope in ropes(base):
        yield {"rope_parameters": rope}
    for key, value in base.items():
        if key in SKIPPED or key in ("rope_parameters", "rope_scaling"):
            continue
        for other in other_values(key, value, layers):
            if other != value:
                yield {key: other}
    if "layer_types" in base or "sliding_window" in base:
        yield {"sliding_window": 5, "use_sliding_window": True, "max_window_layers": 2}
        yield {"sliding_window": 5, "layer_types": ["sliding_attention", "full_attention"] * 2}
    yield from variants_of_heads(model_type)
    yield {"is_causal": False}
    for key in ("attention_bias", "mlp_bias"):
        if key in base:
            yield {key: True, "tie_word_embeddings": True}


def filled(name, shape, is_scale):
    """WeightsForTest of src/detent/language/networks_for_test.h."""
    state = 1469598103934665603
    for c in name.encode():
        state = (state ^ c) * 1099511628211 % 2**64
    values = []
    for _ in range(int(np.prod(shape))):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        values.append(np.float32((state >> 40) / 2**24 - 0.5) * np.float32(0.8) + np.float32(1 if is_scale else 0))
    return torch.tensor(np.array(values, np.float32)).reshape(shape)


def stored_parts(name, tensor):
    """Names and parts as Detent has them, of a parameter of transformers."""
    stem, _, end = name.rpartition(".")
    if end in ("e_score_correction_bias", "expert_bias"):
        return [(name + ".weight", tensor)]
    if end.endswith("_bias"):
        stem, end = stem + "." + end[:-len("_bias")], "bias"
    elif end not in ("weight", "bias"):
        stem, end = name, "weight"
    holds_experts = (tensor.dim() == 3 and ".conv." not in name) or (tensor.dim() == 2 and end == "bias")
    if not holds_experts:
        return [(f"{stem}.{end}", tensor)]
    place, _, last = stem.rpartition(".")
    if last.endswith("linear"):
        return [(f"{stem}.{e}.{end}", tensor[e]) for e in range(len(tensor))]
    return [(f"{place}.{e}.{last}.{end}", tensor[e]) for e in range(len(tensor))]


def last_row(results):
    rows = results.reshape(-1, results.shape[-1]) if results.dim() else results
    return rows[-1, :3].tolist()


def golden(text):
    """First results of the last token, for families_test.cc."""
    keys = {"vocab_size": 61, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
            "num_key_value_heads": 1, "intermediate_size": 12, "max_position_embeddings": 32, "pad_token_id": 0}
    keys.update(json.loads(text))
    config = CONFIG_MAPPING[keys.pop("model_type")](**keys)
    model, is_causal = network(config)
    results = result_of(config, is_causal)
    has_prefix = is_causal or config.model_type in ENCODERS_OF_PAIRS
    prefix = "" if has_prefix else model.base_model_prefix + "."
    folder = tempfile.mkdtemp()
    model.save_pretrained(folder)
    path = os.path.join(folder, "model.safetensors")
    tensors = load_file(path)
    for name, tensor in tensors.items():
        for stored, part in stored_parts(prefix + name, tensor):
            is_norm = ("norm" in stored or "Norm" in stored) and stored.endswith("weight")
            part.copy_(filled(stored, part.shape, is_norm))
    save_file(tensors, path, {"format": "pt"})
    model = type(model).from_pretrained(folder, dtype=torch.float32, attn_implementation=attention_of(config))
    if hasattr(model, "set_experts_implementation"):
        model.set_experts_implementation("eager")
    shutil.rmtree(folder)
    with torch.no_grad():
        ids = torch.tensor([[5, 7, 12, 60, 3, 9, 4, 2, 11, 40, 41, 42, 43, 44]])
        out = model.double()(input_ids=ids, attention_mask=torch.ones_like(ids))
    print("{" + ", ".join(f"{x:.7g}" for x in last_row(getattr(out, results)[0])) + "}", text)


def text_of(changes):
    return json.dumps(changes)[:150]


def sweep(binary, model_type, options, folder):
    fields = options.fields
    forms = [(None, False)] + ([(None, True)] if fields else [])
    if options.heads:
        forms += [(changes, False) for changes in variants_of_heads(model_type)]
    if fields:
        forms += [(changes, i % 2 == 1) for i, changes in enumerate(variants(model_type))]
    counts = {}
    for changes, old in forms:
        try:
            config = tiny(model_type, changes)
            state, detail = compare(binary, config, folder, old)
        except KeyboardInterrupt:
            raise
        except Exception as error:  # transformers refuses it
            state, detail = "invalid", str(error).replace("\n", " ")[:120]
        counts[state] = counts.get(state, 0) + 1
        if changes is None or state == "WRONG" or (state == "refused" and "VERBOSE" in os.environ):
            form = " (form of transformers 4)" if old else ""
            print(f"{model_type:24} {state:8} {detail} {text_of(changes) if changes else ''}{form}", flush=True)
    if fields or options.heads:
        print(f"{model_type:24} {counts}", flush=True)
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", nargs="?")
    parser.add_argument("model_types", nargs="*")
    parser.add_argument("--fields", action="store_true")
    parser.add_argument("--heads", action="store_true", help="each class with a head, and no other fields")
    parser.add_argument("--golden", help="a config, whose results are printed for a test")
    parser.add_argument("--keep", help="folder of the last network")
    options = parser.parse_intermixed_args()
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    if options.golden:
        return golden(options.golden)
    names = options.model_types or sorted(CONFIG_MAPPING)
    folder = options.keep or tempfile.mkdtemp()
    total = {}
    for name in names:
        for state, count in sweep(options.binary, name, options, os.path.join(folder, "network")).items():
            total[state] = total.get(state, 0) + count
    print(total)
    return 1 if total.get("WRONG") else 0


if __name__ == "__main__":
    sys.exit(main())
