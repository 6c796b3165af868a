"""A language model that is small enough for tests, and its tokenizer, which knows letters."""

from __future__ import annotations

import json
import pathlib

import numpy as np

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|"
HIDDEN, LAYERS, HEADS, KV_HEADS, HEAD_SIZE, INNER = 24, 2, 6, 2, 8, 40


def _weights() -> dict[str, np.ndarray]:
    random = np.random.default_rng(5)
    shapes = {"embed_tokens.weight": (len(LETTERS) + 1, HIDDEN), "norm.weight": (HIDDEN,)}
    for layer in range(LAYERS):
        shapes |= {
            f"layers.{layer}.{name}.weight": shape
            for name, shape in {
                "input_layernorm": (HIDDEN,),
                "post_attention_layernorm": (HIDDEN,),
                "self_attn.q_proj": (HEADS * HEAD_SIZE, HIDDEN),
                "self_attn.k_proj": (KV_HEADS * HEAD_SIZE, HIDDEN),
                "self_attn.v_proj": (KV_HEADS * HEAD_SIZE, HIDDEN),
                "self_attn.o_proj": (HIDDEN, HEADS * HEAD_SIZE),
                "mlp.gate_proj": (INNER, HIDDEN),
                "mlp.up_proj": (INNER, HIDDEN),
                "mlp.down_proj": (HIDDEN, INNER),
            }.items()
        }
    weights = {}
    for name, shape in shapes.items():
        values = (random.random(shape) - 0.5) * 0.8 + (1 if "norm" in name else 0)
        weights["model." + name] = values.astype(np.float32)
    return weights


def _safetensors(weights: dict[str, np.ndarray]) -> bytes:
    header, data = {}, b""
    for name, value in weights.items():
        header[name] = {"dtype": "F32", "shape": value.shape, "data_offsets": [len(data), len(data) + value.nbytes]}
        data += value.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data


def write_tiny_llama(path: pathlib.Path) -> None:
    """As the folder that Hugging Face's libraries write: a Llama of two layers."""
    config = {
        "model_type": "llama", "hidden_size": HIDDEN, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS, "head_dim": HEAD_SIZE, "intermediate_size": INNER,
        "vocab_size": len(LETTERS) + 1, "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "hidden_act": "silu",
        "tie_word_embeddings": True, "eos_token_id": 0, "bos_token_id": 0,
    }  # fmt: skip
    (path / "config.json").write_text(json.dumps(config))
    (path / "model.safetensors").write_bytes(_safetensors(_weights()))
    vocabulary = {"</s>": 0, **{letter: i + 1 for i, letter in enumerate(LETTERS)}}
    tokenizer = {
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
        "added_tokens": [{"id": 0, "content": "</s>", "special": True}],
        "decoder": {"type": "Fuse"},
    }
    (path / "tokenizer.json").write_text(json.dumps(tokenizer))
    template = "{% for m in messages %}{{ m.role[0] + m.content }}{% endfor %}{% if add_generation_prompt %}a{% endif %}"
    (path / "tokenizer_config.json").write_text(json.dumps({"eos_token": "</s>", "chat_template": template}))
