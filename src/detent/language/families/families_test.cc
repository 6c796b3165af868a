#include "detent/language/families/families.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>

#include "detent/core/convert.h"
#include "detent/core/error.h"
#include "detent/files/json.h"
#include "detent/files/safetensors.h"
#include "detent/files/temporary_file_test.h"
#include "detent/inference/integer_executor.h"
#include "detent/language/decoder.h"
#include "detent/language/language_model.h"
#include "detent/language/networks_for_test.h"

namespace detent {
namespace {

/// Keys of config.json besides `common_keys`, and the first results of the last token that transformers 5.24
/// computes in float64 where tensors are filled by their stored names (WeightsForTest).
struct Golden {
  const char* config;
  std::vector<double> results;
};

Table common_keys() {
  return {{"vocab_size", 61},
          {"hidden_size", 16},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 2},
          {"num_key_value_heads", 1},
          {"intermediate_size", 12},
          {"max_position_embeddings", 32},
          {"pad_token_id", 0}};
}

std::vector<Golden> goldens_of_llama_kin() {
  return {
      {R"({"model_type": "cohere", "logit_scale": 0.25, "rope_theta": 5000.0, "attention_bias":
          true})",
       {-0.1278275, -0.2905388, -0.307927}},
      {R"({"model_type": "cohere2", "logit_scale": 0.25, "sliding_window": 3, "layer_types":
          ["sliding_attention", "full_attention"], "rope_theta": 5000.0})",
       {-0.2287186, -0.04271618, -0.4807655}},
      {R"({"model_type": "glm", "head_dim": 8, "partial_rotary_factor": 0.5, "tie_word_embeddings":
          false, "rope_theta": 10000.0})",
       {0.07140687, -0.6750932, -2.502239}},
      {R"({"model_type": "glm4", "head_dim": 12, "partial_rotary_factor": 0.5, "attention_bias":
          false, "tie_word_embeddings": false, "rope_theta": 10000.0})",
       {0.009356558, 0.01945525, -1.505284}},
      {R"({"model_type": "exaone4", "sliding_window": 3, "layer_types": ["full_attention",
          "sliding_attention"], "tie_word_embeddings": false, "rope_theta": 10000.0})",
       {0.519369, 0.03777082, 0.740133}},
      {R"({"model_type": "exaone4", "sliding_window": null, "tie_word_embeddings": false,
          "rope_theta": 10000.0, "layer_types": ["full_attention", "full_attention"]})",
       {0.7392468, -0.6596029, -0.2043149}},
      {R"({"model_type": "arcee", "mlp_bias": true, "tie_word_embeddings": false, "rope_theta":
          10000.0})",
       {0.6458117, -0.9708838, 0.198469}},
      {R"({"model_type": "ernie4_5", "head_dim": 8, "use_bias": true, "tie_word_embeddings": true,
          "rope_theta": 5000.0})",
       {-1.385302, -1.189882, -0.9565716}},
      {R"({"model_type": "helium", "head_dim": 8, "tie_word_embeddings": false, "rope_theta":
          10000.0})",
       {0.6051888, 0.4912962, 0.1150721}},
      {R"({"model_type": "seed_oss", "head_dim": 6, "attention_out_bias": false,
          "tie_word_embeddings": false, "rope_theta": 10000.0})",
       {0.801714, 1.640233, 0.5318612}},
  };
}

std::vector<Golden> goldens() {
  return {
      {R"({"model_type": "gemma", "head_dim": 6, "hidden_act": "gelu_pytorch_tanh",
          "tie_word_embeddings": true, "rope_theta": 10000.0})",
       {-2.32795, -1.554379, -0.1788572}},
      {R"({"model_type": "gemma2", "head_dim": 8, "query_pre_attn_scalar": 24, "sliding_window":
          3, "attn_logit_softcapping": 2.0, "final_logit_softcapping": 5.0, "rope_theta": 10000.0})",
       {-1.51244, -0.4111963, -2.763632}},
      {R"({"model_type": "granite", "embedding_multiplier": 3.0, "residual_multiplier": 0.5,
          "attention_multiplier": 0.4, "logits_scaling": 4.0, "mlp_bias": true,
          "tie_word_embeddings": false, "rope_theta": 10000.0})",
       {0.02016869, 0.3300837, -0.2323044}},
      {R"({"model_type": "smollm3", "no_rope_layers": [0, 1], "tie_word_embeddings": true,
          "use_sliding_window": false, "rope_theta": 10000.0})",
       {-0.631038, 0.362728, -0.6329744}},
      {R"({"model_type": "starcoder2", "use_bias": true, "sliding_window": 4, "norm_epsilon":
          0.001, "rope_theta": 10000.0})",
       {-1.030772, -0.6304215, 0.05274009}},
      {R"({"model_type": "olmo2", "rope_theta": 10000.0, "tie_word_embeddings": false})",
       {0.7825476, -0.7668606, -0.4318649}},
      {R"({"model_type": "olmo3", "sliding_window": 3, "tie_word_embeddings": false,
          "layer_types": ["sliding_attention", "full_attention"],
          "rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 5000.0},
          "sliding_attention": {"rope_type": "default", "rope_theta": 700.0}}})",
       {0.7811435, 1.458024, 1.136933}},
      {R"({"model_type": "stablelm", "use_qkv_bias": true, "partial_rotary_factor": 0.25,
          "use_parallel_residual": true, "tie_word_embeddings": false, "rope_theta": 10000.0})",
       {-0.3640202, 1.200333, 0.1112843}},
      {R"({"model_type": "phi", "partial_rotary_factor": 0.5, "tie_word_embeddings": false,
          "rope_theta": 10000.0})",
       {1.229407, -0.78247, -1.237563}},
      {R"({"model_type": "gpt_neox", "rotary_pct": 0.25, "rotary_emb_base": 500,
          "use_parallel_residual": true, "tie_word_embeddings": false})",
       {1.004194, -1.155645, -0.3447436}},
      {R"({"model_type": "mpnet", "pad_token_id": 1, "hidden_act": "gelu"})",
       {-1.753047, 0.6237988, -0.7290178}},
      {R"({"model_type": "electra", "pad_token_id": 1, "hidden_act": "gelu", "embedding_size": 10,
          "type_vocab_size": 2})",
       {-0.09461977, 0.4570693, 0.9133382}},
  };
}

std::vector<Golden> goldens_of_experts() {
  return {
      {R"({"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2, "rope_theta":
          10000.0, "sliding_window": null, "tie_word_embeddings": false})",
       {0.4260733, -1.167943, -1.779316}},
      {R"({"model_type": "qwen2_moe", "num_experts": 4, "num_experts_per_tok": 2,
          "moe_intermediate_size": 6, "shared_expert_intermediate_size": 10, "rope_theta": 10000.0,
          "mlp_only_layers": [], "tie_word_embeddings": false})",
       {0.4359706, -1.186267, -1.863191}},
      {R"({"model_type": "qwen3_moe", "num_experts": 4, "num_experts_per_tok": 2,
          "moe_intermediate_size": 6, "norm_topk_prob": true, "head_dim": 6, "mlp_only_layers": [1],
          "rope_theta": 10000.0, "tie_word_embeddings": false})",
       {-0.34954, 0.8671335, 1.524634}},
      {R"({"model_type": "qwen3_moe", "num_experts": 4, "num_experts_per_tok": 2,
          "moe_intermediate_size": 6, "norm_topk_prob": true, "use_sliding_window": true,
          "sliding_window": 3, "max_window_layers": 1, "rope_theta": 10000.0,
          "tie_word_embeddings": false})",
       {-0.8725561, 1.667188, 1.102895}},
      {R"({"model_type": "olmoe", "num_experts": 4, "num_experts_per_tok": 3, "rope_theta": 10000.0,
          "tie_word_embeddings": false})",
       {0.3985203, -0.9674016, -2.296148}},
  };
}

std::vector<Golden> goldens_with_layer_norms() {
  return {
      {R"({"model_type": "falcon", "multi_query": true, "parallel_attn": true, "bias": false, "alibi":
          false, "new_decoder_architecture": false, "rope_theta": 10000.0})",
       {-0.2146575, -0.6006436, 0.2541315}},
      {R"({"model_type": "mpt", "d_model": 18, "n_heads": 3, "n_layers": 2, "max_seq_len": 32,
          "attn_config": {"alibi": true, "clip_qkv": 0.5}})",
       {1.419983, -2.022605, 0.7746222}},
      {R"({"model_type": "bloom", "hidden_size": 18, "n_head": 3, "n_layer": 2})",
       {-0.401831, -0.3692485, -0.3812468}},
      {R"({"model_type": "gptj", "n_embd": 16, "n_head": 2, "n_layer": 2, "n_positions": 32,
          "rotary_dim": 4, "tie_word_embeddings": false})",
       {0.2876647, -0.2973862, -0.3777958}},
      {R"({"model_type": "gpt_neo", "num_layers": 2, "num_heads": 2, "window_size": 3, "intermediate_size":
          12, "attention_layers": ["global", "local"]})",
       {0.3548888, 0.1514001, -0.01052199}},
      {R"({"model_type": "gpt_bigcode", "n_embd": 16, "n_head": 2, "n_layer": 2, "n_positions": 32,
          "multi_query": true})",
       {0.4359441, -0.2036028, -0.09989294}},
      {R"({"model_type": "modernbert", "local_attention": 6, "num_hidden_layers": 4, "global_rope_theta":
          5000.0, "local_rope_theta": 300.0})",
       {-0.6205945, 0.421479, 0.6034925}},
      {R"({"model_type": "albert", "embedding_size": 10, "num_hidden_groups": 1, "inner_group_num": 1,
          "type_vocab_size": 2})",
       {1.998518, -0.2194444, -1.200408}},
  };
}

std::vector<Golden> goldens_of_chosen_experts() {
  return {
      {R"({"model_type": "glm4_moe", "head_dim": 8, "use_qk_norm": true, "n_routed_experts": 8,
          "num_experts_per_tok": 3, "moe_intermediate_size": 6, "n_shared_experts": 1, "n_group": 4,
          "topk_group": 2, "routed_scaling_factor": 1.5, "first_k_dense_replace": 1,
          "tie_word_embeddings": false, "rope_parameters": {"rope_type": "default", "rope_theta":
          10000.0, "partial_rotary_factor": 0.5}})",
       {0.5572274, 0.2035012, 0.07362918}},
      {R"({"model_type": "dots1", "n_routed_experts": 4, "num_experts_per_tok": 2,
          "moe_intermediate_size": 6, "n_shared_experts": 2, "norm_topk_prob": true,
          "first_k_dense_replace": 0, "sliding_window": 3, "max_window_layers": 1,
          "tie_word_embeddings": false, "rope_theta": 10000.0})",
       {0.4680441, 0.7664388, -1.366798}},
      {R"({"model_type": "ernie4_5_moe", "moe_num_experts": 4, "moe_k": 2, "moe_intermediate_size": 6,
          "moe_num_shared_experts": 1, "moe_norm_min": 0.7, "tie_word_embeddings": false, "rope_theta":
          5000.0})",
       {0.9288261, 0.107358, -0.5560771}},
  };
}

std::vector<Golden> goldens_of_latents() {
  return {
      {R"({"model_type": "deepseek_v2", "num_key_value_heads": 2, "q_lora_rank": null, "kv_lora_rank": 9,
          "qk_rope_head_dim": 4, "qk_nope_head_dim": 5, "v_head_dim": 7, "n_routed_experts": 8,
          "num_experts_per_tok": 3, "moe_intermediate_size": 6, "n_shared_experts": 1, "topk_method":
          "group_limited_greedy", "n_group": 4, "topk_group": 2, "routed_scaling_factor": 1.5,
          "first_k_dense_replace": 1, "rope_parameters": {"rope_type": "yarn", "factor": 4.0,
          "original_max_position_embeddings": 8, "rope_theta": 10000.0, "mscale": 0.7,
          "mscale_all_dim": 0.4}})",
       {0.3452954, 1.290688, 0.4020592}},
      {R"({"model_type": "deepseek_v3", "num_key_value_heads": 2, "q_lora_rank": 11, "kv_lora_rank": 9,
          "qk_rope_head_dim": 4, "qk_nope_head_dim": 5, "v_head_dim": 7, "n_routed_experts": 8,
          "num_experts_per_tok": 3, "moe_intermediate_size": 6, "n_shared_experts": 2, "n_group": 4,
          "topk_group": 2, "routed_scaling_factor": 2.5, "first_k_dense_replace": 1, "attention_bias":
          true, "rope_theta": 10000.0})",
       {0.4534975, 1.244328, -1.411924}},
      {R"({"model_type": "glm4_moe_lite", "num_key_value_heads": 2, "q_lora_rank": 11, "kv_lora_rank": 9,
          "qk_rope_head_dim": 4, "qk_nope_head_dim": 5, "v_head_dim": 12, "n_routed_experts": 4,
          "num_experts_per_tok": 2, "moe_intermediate_size": 6, "n_shared_experts": 1,
          "mlp_layer_types": ["sparse", "dense"], "rope_interleave": false, "rope_theta":
          10000.0})",
       {-0.9947224, 0.77612, 0.9261283}},
      {R"({"model_type": "minicpm3", "num_key_value_heads": 2, "q_lora_rank": 11, "kv_lora_rank": 9,
          "qk_rope_head_dim": 4, "qk_nope_head_dim": 6, "v_head_dim": 5, "dim_model_base": 4,
          "rope_theta": 10000.0})",
       {-0.0263185, -0.3875889, -0.0477174}},
  };
}

std::vector<Golden> goldens_of_added_families() {
  return {
      {R"({"model_type": "falcon", "num_attention_heads": 2, "multi_query": false, "parallel_attn": false,
          "bias": true, "alibi": true, "new_decoder_architecture": false})",
       {-0.5398522, -0.6710524, 0.2497118}},
      {R"({"model_type": "olmoe", "num_experts": 4, "num_experts_per_tok": 3, "rope_theta": 10000.0,
          "clip_qkv": 0.7, "tie_word_embeddings": false})",
       {0.4890891, -0.9593874, -1.935132}},
      {R"({"model_type": "ministral3", "head_dim": 8, "rope_parameters": {"rope_type": "yarn",
          "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 4, "mscale":
          1.0, "mscale_all_dim": 1.0, "beta_fast": 32.0, "beta_slow": 1.0,
          "llama_4_scaling_beta": 0.3}})",
       {0.7476648, -1.125157, -0.2608237}},
      {R"({"model_type": "codegen", "n_embd": 16, "n_head": 2, "n_layer": 2, "n_positions": 32,
          "rotary_dim": 2, "tie_word_embeddings": false})",
       {0.2653261, -0.3601769, -0.261327}},
      {R"({"model_type": "t5", "d_model": 16, "d_kv": 6, "num_heads": 2, "num_layers": 2, "d_ff": 12,
          "relative_attention_num_buckets": 8, "relative_attention_max_distance": 10,
          "feed_forward_proj": "gated-gelu"})",
       {-0.2930525, -0.9930031, 0.4677858}},
      {R"({"model_type": "t5", "d_model": 16, "d_kv": 8, "num_heads": 2, "num_layers": 2, "d_ff": 12,
          "feed_forward_proj": "relu"})",
       {0.4495948, -0.6085863, 0.6861126}},
      {R"({"model_type": "umt5", "d_model": 16, "d_kv": 6, "num_heads": 2, "num_layers": 2, "d_ff": 12,
          "relative_attention_num_buckets": 8, "relative_attention_max_distance": 10})",
       {-0.2544374, -0.9877771, 0.4056869}},
      {R"({"model_type": "apertus", "tie_word_embeddings": false, "rope_parameters": {"rope_type":
          "llama3", "rope_theta": 10000.0, "factor": 8.0, "original_max_position_embeddings": 8192,
          "low_freq_factor": 1.0, "high_freq_factor": 4.0}})",
       {0.0472899, -1.681287, -0.651354}},
      {R"({"model_type": "youtu", "num_key_value_heads": 2, "q_lora_rank": null, "kv_lora_rank": 9,
          "qk_rope_head_dim": 6, "qk_nope_head_dim": 5, "v_head_dim": 4, "rope_theta": 10000.0,
          "tie_word_embeddings": false})",
       {0.0009762932, 1.625662, -0.09578335}},
      {R"({"model_type": "modernbert-decoder", "local_attention": 6, "num_hidden_layers": 4,
          "layer_types": ["full_attention", "sliding_attention", "sliding_attention",
          "full_attention"], "rope_parameters": {"full_attention": {"rope_type": "default",
          "rope_theta": 5000.0}, "sliding_attention": {"rope_type": "default", "rope_theta":
          300.0}}})",
       {1.182929, 0.5645635, 0.4412068}},
      {R"({"model_type": "stablelm", "use_qkv_bias": true, "partial_rotary_factor": 0.5, "qk_layernorm":
          true, "use_parallel_residual": true, "tie_word_embeddings": false, "rope_theta":
          10000.0})",
       {-0.5302753, 1.295644, 0.1861581}},
  };
}

std::vector<Golden> goldens_of_rare_parts() {
  return {
      {R"({"model_type": "nemotron", "partial_rotary_factor": 0.5, "attention_bias": true, "mlp_bias":
          false, "tie_word_embeddings": false, "rope_theta": 10000.0})",
       {2.389806, 0.1328231, -3.249154}},
      {R"({"model_type": "persimmon", "qk_layernorm": true, "partial_rotary_factor": 0.5,
          "tie_word_embeddings": false, "rope_theta": 10000.0})",
       {1.053154, 0.8647983, -0.5590491}},
      {R"({"model_type": "olmo", "clip_qkv": 0.5, "tie_word_embeddings": false, "rope_theta": 10000.0})",
       {0.4518137, 0.8920377, 0.7584219}},
      {R"({"model_type": "hunyuan_v1_dense", "tie_word_embeddings": false, "head_dim": 8,
          "rope_parameters": {"rope_type": "dynamic", "alpha": 3.0, "factor": 1.0, "rope_theta":
          10000.0}})",
       {0.5990104, -0.5782946, -0.01346659}},
      {R"({"model_type": "bitnet", "tie_word_embeddings": false, "rope_theta": 10000.0})",
       {0.944833, -0.3314721, 0.2140679}},
      {R"({"model_type": "cwm", "head_dim": 8, "sliding_window": 3, "tie_word_embeddings": false,
          "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}})",
       {0.1231988, -0.9870725, 0.2116635}},
      {R"({"model_type": "eurobert", "tie_word_embeddings": false, "rope_theta": 10000.0})",
       {-1.154545, -0.4994741, 0.4230253}},
      {R"({"model_type": "nomic_bert", "type_vocab_size": 2, "rope_theta": 1000.0})",
       {-0.3271043, -1.420485, -1.031469}},
  };
}

std::vector<Golden> goldens_of_rare_keys() {
  return {
      {R"({"model_type": "qwen2", "is_causal": false, "rope_theta": 5000.0, "tie_word_embeddings": false})",
       {-1.503912, 1.165125, -0.5480518}},
      {R"({"model_type": "lfm2_moe", "layer_types": ["full_attention", "conv"], "num_dense_layers": 1,
          "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 6, "rope_theta": 5000.0,
          "routed_scaling_factor": 1.5})",
       {-0.2329343, 0.5855791, 1.163476}},
      {R"({"model_type": "lfm2", "layer_types": ["conv", "full_attention"], "conv_bias": true,
          "block_multiple_of": 8, "rope_theta": 5000.0})",
       {1.44401, 0.8721519, 2.350839}},
      {R"({"model_type": "lfm2", "full_attn_idxs": [0], "conv_L_cache": 4, "block_auto_adjust_ff_dim":
          false, "rope_theta": 10000.0, "tie_word_embeddings": false})",
       {-1.151918, 0.2564349, 0.4955062}},
      {R"({"model_type": "gpt_oss", "head_dim": 8, "num_local_experts": 4, "num_experts_per_tok": 2,
          "sliding_window": 3, "swiglu_limit": 0.5, "tie_word_embeddings": false, "rope_parameters":
          {"rope_type": "default", "rope_theta": 10000.0}})",
       {1.135001, 0.8242108, -1.401909}},
      {R"({"model_type": "granitemoeshared", "num_local_experts": 4, "num_experts_per_tok": 2,
          "shared_intermediate_size": 10, "tie_word_embeddings": false, "attention_multiplier": 0.4,
          "rope_theta": 10000.0})",
       {-1.403451, -0.006469266, 1.389195}},
      {R"({"model_type": "phi", "qk_layernorm": true, "partial_rotary_factor": 0.5,
          "tie_word_embeddings": false, "rope_theta": 10000.0})",
       {1.320467, -0.9864682, -1.436176}},
      {R"({"model_type": "cohere", "use_qk_norm": true, "logit_scale": 0.25, "rope_theta": 5000.0})",
       {-0.2303525, -0.07841676, -0.4194402}},
      {R"({"model_type": "mpnet", "pad_token_id": 12, "hidden_act": "gelu"})",
       {-1.753047, 0.6237988, -0.7290178}},
      {R"({"model_type": "smollm3", "no_rope_layers": [0, 1], "sliding_window": 3, "use_sliding_window":
          false, "layer_types": ["full_attention", "sliding_attention"], "tie_word_embeddings": true,
          "rope_theta": 10000.0})",
       {-1.230768, -0.1274741, -0.82077}},
      {R"({"model_type": "albert", "embedding_size": 16, "num_hidden_groups": 1, "inner_group_num": 1,
          "type_vocab_size": 2})",
       {2.249655, -0.007609083, -0.6821997}},
      {R"({"model_type": "opt", "ffn_dim": 12, "word_embed_proj_dim": 16, "num_key_value_heads": 2,
          "layer_norm_elementwise_affine": false})",
       {-1.026861, 0.9450989, 0.723845}},
      {R"({"model_type": "ministral", "head_dim": 8, "sliding_window": 3, "layer_types":
          ["full_attention", "sliding_attention"], "tie_word_embeddings": false, "rope_theta": 10000.0})",
       {0.1230258, -0.9872746, 0.2113665}},
  };
}

std::vector<Golden> goldens_of_deberta() {
  return {
      {R"({"model_type": "deberta-v2", "relative_attention": true, "position_buckets": 4,
          "max_relative_positions": 9, "pos_att_type": ["p2c", "c2p"], "share_att_key": true, "norm_rel_ebd":
          "layer_norm", "position_biased_input": false, "conv_kernel_size": 3, "conv_groups": 2, "conv_act":
          "gelu", "architectures": ["DebertaV2ForMaskedLM"]})",
       {-1.287342, -0.1409895, -2.030109}},
      {R"({"model_type": "deberta-v2", "relative_attention": true, "pos_att_type": "c2p|p2c",
          "max_relative_positions": 6, "type_vocab_size": 2, "architectures":
          ["DebertaV2ForSequenceClassification"], "num_labels": 3})",
       {-1.093764, 0.2430656, -1.015694}},
      {R"({"model_type": "deberta-v2", "relative_attention": true, "pos_att_type": ["c2p"],
          "position_buckets": 6, "max_relative_positions": 16, "architectures":
          ["DebertaV2ForTokenClassification"], "num_labels": 4})",
       {-1.016611, -0.2207811, -0.5068859}},
      {R"({"model_type": "deberta-v2", "relative_attention": true, "pos_att_type": ["p2c"],
          "position_buckets": 5, "share_att_key": true, "position_biased_input": false, "norm_rel_ebd":
          "none", "architectures": ["DebertaV2ForQuestionAnswering"]})",
       {-0.1794452, -0.773678, -0.7233751}},
      {R"({"model_type": "deberta-v2", "relative_attention": false, "pos_att_type": ["p2c"],
          "conv_kernel_size": 5, "architectures": ["DebertaV2Model"]})",
       {0.8944176, -1.338856, -0.995489}},
  };
}

std::vector<Golden> goldens_of_heads() {
  return {
      {R"({"model_type": "bert", "type_vocab_size": 2, "num_labels": 3, "architectures":
          ["BertForSequenceClassification"]})",
       {0.1886945, 0.1422564, -0.5296504}},
      {R"({"model_type": "bert", "architectures": ["BertForMaskedLM"], "hidden_act": "relu"})",
       {1.277648, -2.47678, -1.556287}},
      {R"({"model_type": "bert", "architectures": ["BertForNextSentencePrediction"]})",
       {-0.7748449, 0.1241704}},
      {R"({"model_type": "bert", "architectures": ["BertForPreTraining"]})",
       {1.397608, -2.255217, -1.404846}},
      {R"({"model_type": "roberta", "pad_token_id": 1, "hidden_act": "relu", "architectures":
          ["RobertaForMaskedLM"]})",
       {1.244492, -0.1794208, -0.2918564}},
      {R"({"model_type": "xlm-roberta", "pad_token_id": 1, "num_labels": 3, "architectures":
          ["XLMRobertaForSequenceClassification"]})",
       {-1.280156, 1.089754, -0.3025166}},
      {R"({"model_type": "albert", "embedding_size": 10, "architectures": ["AlbertForMaskedLM"]})",
       {-1.012324, 1.463996, 0.2252856}},
      {R"({"model_type": "albert", "embedding_size": 10, "architectures": ["AlbertForQuestionAnswering"]})",
       {0.08968398, 0.3622322, 0.8740569}},
      {R"({"model_type": "electra", "embedding_size": 10, "architectures": ["ElectraForMaskedLM"]})",
       {1.232451, -0.3220966, -1.124142}},
      {R"({"model_type": "electra", "embedding_size": 10, "num_labels": 3, "architectures":
          ["ElectraForSequenceClassification"]})",
       {-0.388581, 0.2087432, -0.7956583}},
      {R"({"model_type": "electra", "embedding_size": 10, "architectures": ["ElectraForPreTraining"]})",
       {0.4937091, 0.1046116, 0.6776601}},
      {R"({"model_type": "mpnet", "pad_token_id": 1, "num_labels": 3, "architectures":
          ["MPNetForTokenClassification"]})",
       {1.154113, 0.1517524, 0.8934707}},
      {R"({"model_type": "modernbert", "classifier_pooling": "mean", "classifier_bias": true, "norm_bias":
          true, "num_labels": 3, "architectures": ["ModernBertForSequenceClassification"]})",
       {0.9575938, 0.763543, 1.010048}},
      {R"({"model_type": "eurobert", "classifier_pooling": "late", "num_labels": 3, "rope_theta": 10000.0, "architectures":
          ["EuroBertForSequenceClassification"]})",
       {0.1443138, -0.3728794, 0.0312087}},
      {R"({"model_type": "llama", "pad_token_id": 44, "num_labels": 3, "architectures":
          ["LlamaForSequenceClassification"]})",
       {-0.3481735, -2.202101, -1.017744}},
      {R"({"model_type": "llama", "num_labels": 3, "architectures": ["LlamaForTokenClassification"]})",
       {-0.9620295, -1.141595, -0.9103909}},
  };
}

std::string stored_name(const LanguageConfig& config, const std::string& name, bool& is_transposed) {
  const size_t point = name.rfind('.');
  std::string pattern = name.substr(0, point);
  std::vector<std::string> numbers;  // of layer and expert
  for (const std::string before : {"layers.", ".experts."}) {
    const size_t at = pattern.find(before);
    const size_t digit = at == std::string::npos ? at : at + before.size();
    if (digit >= pattern.size() || pattern[digit] < '0' || pattern[digit] > '9') continue;
    numbers.push_back(pattern.substr(digit, 1));
    pattern.replace(digit, 1, "{}");
  }
  for (const StoredName& rule : weight_rules(find_language_family(config.family))) {
    const bool has_query_rank = config.latent.query_rank > 0 && rule.stored.ends_with(".q_proj");
    const bool is_plain = config.perceptron == PerceptronKind::kPlain && rule.stored.ends_with("wi_1");
    const bool has_tied_bias =
        rule.name == "head" && rule.stored.ends_with(".decoder") && name.ends_with("bias");
    const bool is_of_roberta = rule.stored == "classifier.out_proj" && config.head.layer.empty();
    if (rule.name != pattern || has_query_rank || is_plain || has_tied_bias || is_of_roberta) continue;
    is_transposed = rule.transposed;
    std::string stored = rule.stored;
    for (const std::string& number : numbers) {
      if (const size_t at = stored.find("{}"); at != std::string::npos) stored.replace(at, 2, number);
    }
    return stored + name.substr(point);
  }
  return "no name for " + name;
}

/// Every tensor that the network asks for; parts of one are its rows.
std::vector<std::pair<std::string, Tensor>> stored_tensors(const LanguageConfig& config) {
  std::map<std::string, Shape> shapes;
  std::set<std::string> transposed;
  for (const NamedShape& weight : expected_weights(config)) {
    bool is_transposed = false;
    const std::string name = stored_name(config, weight.name, is_transposed);
    if (is_transposed && weight.shape.size() == 2) transposed.insert(name);
    const auto [shape, is_new] = shapes.try_emplace(name, weight.shape);
    const bool has_all_layers = name.find("albert_layers") != std::string::npos;
    if (!is_new && !has_all_layers) shape->second[0] += weight.shape[0];
  }
  for (const std::string& name : transposed) std::swap(shapes.at(name)[0], shapes.at(name)[1]);
  WeightsForTest weights;
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (const auto& [name, shape] : shapes) {
    const bool is_of_heads = name.find("_layernorm.weight") != std::string::npos && shape.size() == 2;
    if (!is_of_heads) tensors.emplace_back(name, weights.of_stored(name, shape));
    for (int64_t head = 0; is_of_heads && head < shape[0]; ++head) {
      std::string of_head = name;
      of_head.insert(of_head.rfind('.'), fmt::format(".norms.{}", head));
      tensors.emplace_back(of_head, weights.of_stored(of_head, {shape[1]}));
    }
  }
  return tensors;
}

TEST(LanguageFamilies, ComputeWhatTransformersComputes) {
  const TemporaryPath folder("family");
  std::filesystem::create_directories(folder.get());
  std::vector<Golden> all = goldens();
  for (const auto& more :
       {goldens_of_llama_kin(), goldens_of_experts(), goldens_with_layer_norms(), goldens_of_rare_parts(),
        goldens_of_rare_keys(), goldens_of_chosen_experts(), goldens_of_latents(),
        goldens_of_added_families(), goldens_of_deberta(), goldens_of_heads()})
    std::ranges::copy(more, std::back_inserter(all));
  for (const Golden& golden : all) {
    Table json = common_keys();
    const Value more = parse_json(golden.config, "config");
    for (const auto& [key, value] : *more.get_if<Table>()) json[key] = value;
    write_json(folder.get() / "config.json", Value(json));
    const LanguageConfig config = read_folder_config(folder.get());
    write_safetensors(folder.get() / "model.safetensors", stored_tensors(config));
    const std::vector<int64_t> tokens = {5, 7, 12, 60, 3, 9, 4, 2, 11, 40, 41, 42, 43, 44};
    const Shape shape = {1, std::ssize(tokens)};
    std::vector<Tensor> inputs = {Tensor::from<int64_t>(shape, tokens),
                                  Tensor::from<int64_t>(shape, std::vector<int64_t>(tokens.size(), 1))};
    if (config.token_types > 0) inputs.emplace_back(DType::kInt64, shape);
    const Tensor results = IntegerProgram(read_language_folder(folder.get())).run(inputs).front();
    const auto last = results.values<float>().last(static_cast<size_t>(results.shape().back()));
    for (size_t i = 0; i < golden.results.size(); ++i)
      EXPECT_NEAR(static_cast<double>(last[i]), golden.results[i], 5e-6) << golden.config << i;
  }
}

/// The file of Gemma 3 of 4B leaves out what its class has by default.
TEST(LanguageFamilies, ReadTheTextPartOfGemma3OfImages) {
  const auto config = [](const char* text) { return read_language_config(parse_json(text, "j"), "j"); };
  const LanguageConfig read = config(
      R"({"model_type": "gemma3", "eos_token_id": [1, 106], "text_config": {"hidden_size": 2560,
          "intermediate_size": 10240, "num_hidden_layers": 34, "sliding_window": 1024,
          "rope_scaling": {"factor": 8.0, "rope_type": "linear"}}})");
  EXPECT_EQ(read.vocabulary, 262208);
  EXPECT_EQ(read.heads, 8);
  EXPECT_EQ(read.kv_heads, 4);
  EXPECT_EQ(read.eos, (std::vector<int64_t>{1, 106}));
  EXPECT_EQ(read.rotary.frequencies[0], 0.125F);
  bool is_transposed = true;
  EXPECT_EQ(stored_name(read, "layers.0.attention.query.weight", is_transposed),
            "language_model.model.layers.0.self_attn.q_proj.weight");
}

TEST(LanguageFamilies, GiveAllLayersOfQwen3MoeAWindowOrNone) {
  const LanguageConfig config = read_language_config(
      parse_json(R"({"model_type": "qwen3_moe", "vocab_size": 61, "hidden_size": 24, "num_hidden_layers": 2,
          "num_attention_heads": 2, "intermediate_size": 12, "max_position_embeddings": 32,
          "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 6, "sliding_window": 3,
          "use_sliding_window": true, "max_window_layers": 1})",
                 "j"),
      "j");
  EXPECT_TRUE(config.layer_has_window(0) && config.layer_has_window(1));
  EXPECT_EQ(config.head_size, 12);
  EXPECT_EQ(config.rotary.frequencies.size(), 6);
}

TEST(LanguageFamilies, TakeTheWindowOfADecoderFromEitherKey) {
  const auto window = [](const char* keys) {
    Table json = common_keys();
    const Value more = parse_json(keys, "config");
    for (const auto& [key, value] : *more.get_if<Table>()) json[key] = value;
    return read_language_config(Value(json), "config.json").window;
  };
  EXPECT_EQ(window(R"({"model_type": "modernbert-decoder", "local_attention": 6})"), 3);
  EXPECT_EQ(window(R"({"model_type": "modernbert-decoder", "local_attention": 6, "sliding_window": 5})"), 5);
}

constexpr int64_t kMxSize = 32;
constexpr int64_t kMxExperts = 2;
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

/// Experts of `rows` rows in MXFP4, and the same values as floats, which are stored the other way round.
void add_experts(const std::string& name, int64_t rows, NamedTensors& codes, NamedTensors& floats) {
  constexpr float kMagnitudes[] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
  Tensor blocks(DType::kUInt8, {kMxExperts, rows, 1, kMxSize / 2});
  Tensor scales(DType::kUInt8, {kMxExperts, rows, 1});
  Tensor matrices(DType::kFloat32, {kMxExperts, kMxSize, rows});
  uint32_t state = 1;
  for (int64_t row = 0; row < kMxExperts * rows; ++row) {
    const auto scale = static_cast<uint8_t>(122 + row % 5);
    scales.values<uint8_t>()[static_cast<size_t>(row)] = scale;
    for (int64_t i = 0; i < kMxSize; ++i) {
      state = state * 1664525 + 1013904223;
      const uint32_t code = state >> 28U;
      auto& byte = blocks.values<uint8_t>()[static_cast<size_t>((row * kMxSize + i) / 2)];
      byte = static_cast<uint8_t>(byte | code << (i % 2 == 0 ? 0U : 4U));
      const float size = std::ldexp(kMagnitudes[code & 7U], scale - 127);
      const int64_t place = (row / rows * kMxSize + i) * rows + row % rows;
      matrices.values<float>()[static_cast<size_t>(place)] = (code & 8U) != 0 ? -size : size;
    }
  }
  codes.emplace_back(name + "_blocks", blocks);
  codes.emplace_back(name + "_scales", scales);
  floats.emplace_back(name, matrices);
}

TEST(LanguageFamilies, DecodeMxfp4OfGptOss) {
  const TemporaryPath folder("mxfp4");
  std::filesystem::create_directories(folder.get());
  Table json = common_keys();
  for (const char* key : {"hidden_size", "intermediate_size"}) json[key] = kMxSize;
  json["model_type"] = "gpt_oss";
  for (const char* key : {"num_local_experts", "num_experts_per_tok"}) json[key] = kMxExperts;
  json["quantization_config"] = Table{{"quant_method", "mxfp4"}};
  write_json(folder.get() / "config.json", Value(json));
  NamedTensors floats = stored_tensors(read_folder_config(folder.get()));
  std::erase_if(floats, [](const auto& tensor) {
    return tensor.first.find(".experts.") != std::string::npos && tensor.first.ends_with("proj.weight");
  });
  NamedTensors codes = floats;
  for (int64_t layer = 0; layer < 2; ++layer) {
    const std::string stem = fmt::format("model.layers.{}.mlp.experts.", layer);
    add_experts(stem + "gate_up_proj", 2 * kMxSize, codes, floats);
    add_experts(stem + "down_proj", kMxSize, codes, floats);
  }
  std::vector<Tensor> results;
  std::vector<int64_t> sizes;  // of weights that a decoder keeps
  for (const NamedTensors& tensors : {floats, codes}) {
    write_safetensors(folder.get() / "model.safetensors", tensors);
    const Shape shape = {1, 5};
    const std::vector<Tensor> inputs = {Tensor::from<int64_t>(shape, {5, 7, 12, 60, 3}),
                                        Tensor::from<int64_t>(shape, {1, 1, 1, 1, 1})};
    results.push_back(IntegerProgram(read_language_folder(folder.get())).run(inputs).front());
    LanguageModel model = read_folder_model(folder.get());
    const Decoder decoder(std::move(model.graph), model.weights);
    sizes.push_back(decoder.weight_bytes());
    SequenceCache cache = decoder.start();
    const Tensor logits = decoder.run(cache, inputs[0].values<int64_t>(), WantedLogits::kOfAllTokens);
    EXPECT_TRUE(std::ranges::equal(results.back().bytes(), logits.bytes()));
  }
  EXPECT_TRUE(std::ranges::equal(results[0].bytes(), results[1].bytes()));
  const int64_t of_experts = 2 * kMxExperts * 3 * kMxSize * kMxSize;
  EXPECT_LT(sizes[1], sizes[0] - of_experts) << "codes are kept in four bits, floats as bfloat16";
}

constexpr int64_t kFp8Block = 8;

/// 8-bit floats of two experts with a scale of each block, and the same values as floats.
void add_fp8_experts(const std::string& name, int64_t rows, int64_t columns, NamedTensors& codes,
                     NamedTensors& floats) {
  const int64_t across = (columns + kFp8Block - 1) / kFp8Block;
  const int64_t down = (rows + kFp8Block - 1) / kFp8Block;
  Tensor bytes(DType::kFloat8E4M3, {kMxExperts, rows, columns});
  Tensor scales(DType::kFloat32, {kMxExperts, down, across});
  uint32_t state = 7;
  for (float& scale : scales.values<float>()) {
    state = state * 1664525 + 1013904223;
    scale = static_cast<float>(state >> 24U) * 1e-4F + 1e-3F;
  }
  for (std::byte& byte : bytes.bytes()) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<std::byte>((state >> 24U & 0x80U) | (state >> 16U & 0x5FU));
  }
  Tensor values = to_float32(bytes);
  for (int64_t i = 0; i < values.numel(); ++i) {
    const int64_t row = i / columns;
    const int64_t block = (row / rows * down + row % rows / kFp8Block) * across + i % columns / kFp8Block;
    values.values<float>()[static_cast<size_t>(i)] *= scales.values<float>()[static_cast<size_t>(block)];
  }
  codes.emplace_back(name, bytes);
  codes.emplace_back(name + "_scale_inv", scales);
  floats.emplace_back(name, values);
}

TEST(LanguageFamilies, DecodeExpertsInOneTensorOfFloat8) {
  const TemporaryPath folder("fp8_experts");
  std::filesystem::create_directories(folder.get());
  Table json = common_keys();
  json["model_type"] = "granitemoe";
  json["intermediate_size"] = 2 * kFp8Block;
  for (const char* key : {"num_local_experts", "num_experts_per_tok"}) json[key] = kMxExperts;
  write_json(folder.get() / "config.json", Value(json));
  NamedTensors floats = stored_tensors(read_folder_config(folder.get()));
  std::erase_if(floats,
                [](const auto& tensor) { return tensor.first.find("put_linear") != std::string::npos; });
  NamedTensors codes = floats;
  for (int64_t layer = 0; layer < 2; ++layer) {
    const std::string stem = fmt::format("model.layers.{}.block_sparse_moe.", layer);
    add_fp8_experts(stem + "input_linear.weight", 32, 16, codes, floats);
    add_fp8_experts(stem + "output_linear.weight", 16, 16, codes, floats);
  }
  write_safetensors(folder.get() / "model.safetensors", floats);
  Graph plain = read_language_folder(folder.get());
  json["quantization_config"] =
      Table{{"quant_method", "fp8"}, {"weight_block_size", List{kFp8Block, kFp8Block}}};
  write_json(folder.get() / "config.json", Value(json));
  write_safetensors(folder.get() / "model.safetensors", codes);
  const Graph coded = read_language_folder(folder.get());
  const Shape shape = {1, 5};
  const std::vector<Tensor> inputs = {Tensor::from<int64_t>(shape, {5, 7, 12, 60, 3}),
                                      Tensor::from<int64_t>(shape, {1, 1, 1, 1, 1})};
  const Tensor result = IntegerProgram(coded).run(inputs).front();
  EXPECT_FALSE(IntegerProgram(plain).run(inputs).front().equals(result)) << "inputs are rounded";
  for (Node& node : plain.nodes()) node.quantization = coded.node(node.name).quantization;
  EXPECT_TRUE(IntegerProgram(plain).run(inputs).front().equals(result));
}

TEST(LanguageFamilies, RefuseNumbersThatTheirNetworksCannotHave) {
  const std::pair<const char*, const char*> damaged[] = {
      {R"({"model_type": "mpnet", "relative_attention_num_buckets": 1)", "expected 32"},
      {R"({"model_type": "mpnet", "max_position_embeddings": 1099511627776)", "expected at most 65536"},
      {R"({"model_type": "smollm3", "no_rope_layers": [1, 0, 1])", "3 layers that turn or not for 2 layers"},
      {R"({"model_type": "llama", "partial_rotary_factor": 0.5)", "whole heads of this family turn"},
      {R"({"model_type": "modernbert", "local_attention": 1)", "expected at least 2"},
      {R"({"model_type": "bloom", "n_layer": 2, "n_head": 2, "is_causal": false)", "\"is_causal\" is false"},
      {R"({"model_type": "lfm2", "conv_L_cache": 0, "full_attn_idxs": [0])", "expected at least 1"},
      {R"({"model_type": "lfm2", "layer_types": ["conv", "conv"])", "no layer has attention"},
      {R"({"model_type": "lfm2", "layer_types": ["conv", "sliding_attention"])", "conv and full_attention"},
      {R"({"model_type": "lfm2", "layer_types": ["conv"])", "1 entries for 2 layers"},
      {R"({"model_type": "lfm2", "block_ffn_dim_multiplier": -1.0)", "expected a number above 0"},
      {R"({"model_type": "modernbert-decoder", "sliding_window": 0)", "expected at least 1"},
      {R"({"model_type": "youtu", "kv_lora_rank": 9, "qk_rope_head_dim": 6, "qk_nope_head_dim": 5,
          "v_head_dim": 4, "head_dim": 5)",
       "expected qk_rope_head_dim, 6"},
      {R"({"model_type": "gpt_oss", "num_local_experts": 4, "swiglu_limit": 0)", "expected a number above 0"},
      {R"({"model_type": "glm4_moe", "head_dim": 8, "n_routed_experts": 4, "num_experts_per_tok": 2,
          "moe_intermediate_size": 6, "n_group": 4, "topk_group": 2)",
       "expected some of 2 or more"},
      {R"({"model_type": "glm4_moe", "head_dim": 8, "n_routed_experts": 4, "num_experts_per_tok": 3,
          "moe_intermediate_size": 6, "n_group": 2, "topk_group": 1)",
       "1 of 2 groups"},
      {R"({"model_type": "llama", "quantization_config": {"quant_method": "mxfp4"})", "not supported"},
      {R"({"model_type": "deberta-v2", "pos_att_type": ["c2p", "p2p"])", "expected c2p or p2c"},
      {R"({"model_type": "deberta-v2", "norm_rel_ebd": "batch_norm")", "expected none or layer_norm"},
      {R"({"model_type": "deberta-v2", "relative_attention": true, "position_buckets": 64)",
       "half of them below max_position_embeddings, 32"},
      {R"({"model_type": "deberta-v2", "conv_kernel_size": 4)", "expected an odd number"},
      {R"({"model_type": "deberta-v2", "conv_kernel_size": 3, "conv_groups": 3)", "expected a divisor"},
      {R"({"model_type": "deberta-v2", "embedding_size": 8)", "other than 16"},
      {R"({"model_type": "deberta-v2", "attention_head_size": 4)", "other than 8"},
      {R"({"model_type": "deberta-v2", "pooler_hidden_size": 8)", "other than 16"},
      {R"({"model_type": "deberta-v2", "architectures": ["DebertaV2ForRetrieval"])",
       "expected DebertaV2Model, DebertaV2ForSequenceClassification"},
      {R"({"model_type": "deberta-v2", "architectures": ["DebertaV2ForQuestionAnswering"], "num_labels": 3)",
       "expected 2"},
      {R"({"model_type": "bert", "architectures": ["BertForRetrieval"])",
       "expected BertModel, BertForSequenceClassification"},
      {R"({"model_type": "roberta", "pad_token_id": 1, "architectures": ["CamembertForCausalLM"])",
       "expected CamembertModel"},
      {R"({"model_type": "bert", "architectures": ["BertForTokenClassification"], "num_labels": 0)",
       "expected 1 to 1048576 labels"},
      {R"({"model_type": "modernbert", "classifier_pooling": "max", "architectures": ["ModernBertModel"])",
       "expected cls or mean"},
      {R"({"model_type": "eurobert", "classifier_pooling": "cls", "architectures": ["EuroBertModel"])",
       "expected bos, mean or late"},
      {R"({"model_type": "electra", "summary_type": "last", "architectures": ["ElectraModel"])", "first"},
      {R"({"model_type": "t5", "num_layers": 2, "d_model": 16, "num_heads": 2, "d_ff": 12, "architectures":
          ["T5ForSequenceClassification"])",
       "expected T5EncoderModel"},
      {R"({"model_type": "qwen2", "architectures": ["Qwen2ForRewardModel"])",
       "...ForSequenceClassification"}};
  for (const auto& [text, reason] : damaged) {
    Table json = common_keys();
    const Value more = parse_json(std::string(text) + "}", "config");
    for (const auto& [key, value] : *more.get_if<Table>()) json[key] = value;
    try {
      read_language_config(Value(json), "config.json");
      ADD_FAILURE() << "took " << text;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(reason), std::string::npos) << error.what();
    }
  }
}

TEST(LanguageFamilies, AreAllNamedWhereATypeIsUnknown) {
  try {
    read_language_config(Value(Table{{"model_type", "falcoon"}}), "config.json");
    ADD_FAILURE() << "took it";
  } catch (const Error& error) {
    const std::string message = error.what();
    for (const LanguageFamily& family : all_language_families())
      EXPECT_NE(message.find(family.model_types.front()), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace detent
