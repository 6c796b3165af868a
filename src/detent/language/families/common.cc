#include <algorithm>
#include <cmath>

#include "detent/core/error.h"
#include "detent/language/families/config_reader.h"

namespace detent {
namespace {

/// Transformers 4 had "type" before "rope_type", and names that are others now.
std::string scaling_type(const ConfigReader& scaling) {
  const std::string type = scaling.text("rope_type", scaling.text("type", "default"));
  return type == "su" ? "longrope" : type;
}

RotaryScaling read_scaling(const ConfigReader& json) {
  RotaryScaling scaling;
  scaling.type = scaling_type(json);
  scaling.factor = json.number("factor", 1);
  scaling.low_frequency_factor = json.number("low_freq_factor", 1);
  scaling.high_frequency_factor = json.number("high_freq_factor", 4);
  scaling.original_context = json.integer("original_max_position_embeddings", 0);
  scaling.attention_factor = json.optional_number("attention_factor");
  scaling.beta_fast = json.number("beta_fast", scaling.beta_fast);
  scaling.beta_slow = json.number("beta_slow", scaling.beta_slow);
  scaling.mscale = json.optional_number("mscale");
  scaling.mscale_all_dim = json.optional_number("mscale_all_dim");
  scaling.truncate = json.boolean("truncate", true);
  if (json.has("short_factor")) scaling.short_factors = json.numbers("short_factor");
  if (json.has("long_factor")) scaling.long_factors = json.numbers("long_factor");
  const bool follows = scaling.type == "yarn" && scaling.original_context > 0;
  const bool stretches = scaling.type != "default" && scaling.type != "longrope" && !follows;
  if (stretches && !json.has("factor")) static_cast<void>(json.number("factor"));
  return scaling;
}

/// The entry of rope_parameters that is meant, of transformers 5; else rope_scaling.
std::optional<ConfigReader> scaling_table(const ConfigReader& json, const std::string& part) {
  auto parameters = json.table("rope_parameters");
  if (!parameters) return json.table("rope_scaling");
  if (part.empty() || !parameters->has(part)) return parameters;
  return parameters->table(part);
}

}  // namespace

LanguageConfig common_config(const ConfigReader& json, const std::string& family, bool tied_by_default) {
  LanguageConfig config;
  config.family = family;
  config.vocabulary = json.integer("vocab_size");
  config.tied_head = json.boolean("tie_word_embeddings", tied_by_default);
  const auto only = [&](const char* key) {
    const std::vector<int64_t> ids = json.integers(key);
    return ids.empty() ? std::nullopt : std::optional(ids.front());
  };
  config.bos = only("bos_token_id");
  config.pad = only("pad_token_id");
  config.eos = json.integers("eos_token_id");
  return config;
}

void read_sizes_as(const ConfigReader& json, const SizeKeys& keys, LanguageConfig& config) {
  constexpr int64_t kMostLayers = 4096;
  config.layers = json.integer(keys.layers);
  if (config.layers < 1 || config.layers > kMostLayers)
    json.refuse(keys.layers, fmt::format("expected 1 to {}", kMostLayers));
  config.hidden = json.integer(keys.hidden);
  config.heads = json.integer(keys.heads);
  if (config.heads < 1 || config.hidden < 1 || config.hidden > INT32_MAX || config.hidden % config.heads != 0)
    json.refuse(keys.heads, fmt::format("expected a divisor of {}, {}", keys.hidden, config.hidden));
  config.kv_heads = config.heads;
  config.head_size = config.hidden / config.heads;
}

void read_sizes(const ConfigReader& json, LanguageConfig& config, const char* perceptron) {
  constexpr int64_t kMostLayers = 4096;
  config.layers = json.integer("num_hidden_layers");
  if (config.layers < 1 || config.layers > kMostLayers)
    json.refuse("num_hidden_layers", fmt::format("expected 1 to {}", kMostLayers));
  config.hidden = json.integer("hidden_size");
  config.heads = json.integer("num_attention_heads");
  if (config.heads < 1) json.refuse("num_attention_heads", "expected at least 1");
  config.kv_heads = json.integer("num_key_value_heads", config.heads);
  config.head_size = json.integer("head_dim", config.hidden / config.heads);
  config.intermediate = json.integer(perceptron);
  config.context = json.integer("max_position_embeddings");
}

Rotary read_rotary(const ConfigReader& json, const LanguageConfig& config, const std::string& part,
                   double theta, std::optional<double> usual_share) {
  const auto table = scaling_table(json, part);
  const bool is_new = json.has("rope_parameters");
  RotaryScaling scaling;
  if (table) scaling = read_scaling(*table);
  scaling.theta = is_new ? table->number("rope_theta", theta) : json.number("rope_theta", theta);
  scaling.original_context = json.integer("original_max_position_embeddings", scaling.original_context);
  const bool follows = scaling.type == "longrope" || scaling.type == "yarn";
  if (follows && !table->has("factor") && scaling.original_context > 0)
    scaling.factor = static_cast<double>(config.context) / static_cast<double>(scaling.original_context);
  double share = json.number("partial_rotary_factor", usual_share.value_or(1));
  if (is_new) share = table->number("partial_rotary_factor", share);
  if (!(share > 0 && share <= 1))
    fail("{}: \"partial_rotary_factor\" is {}, expected a number above 0 and at most 1", json.where(), share);
  if (!usual_share && share != 1)
    fail("{}: \"partial_rotary_factor\" is {}: whole heads of this family turn, expected 1", json.where(),
         share);
  const auto size = static_cast<int64_t>(static_cast<double>(config.head_size) * share);
  try {
    return rotary_of(scaling, size, config.context);
  } catch (const Error& error) {
    fail("{}: {}", json.where(), error.what());
  }
}

std::vector<bool> read_windows(const ConfigReader& json, int64_t layers, std::vector<bool> otherwise) {
  if (!json.has("layer_types")) return otherwise;
  const std::vector<std::string> types = json.texts("layer_types");
  if (std::ssize(types) != layers)
    fail("{}: \"layer_types\" has {} entries for {} layers", json.where(), types.size(), layers);
  std::vector<bool> windows;
  for (const std::string& type : types) {
    if (type != "full_attention" && type != "sliding_attention")
      fail("{}: \"layer_types\" has \"{}\", expected full_attention or sliding_attention", json.where(),
           type);
    windows.push_back(type == "sliding_attention");
  }
  return windows;
}

std::vector<StoredName> llama_weights() {
  const std::string layer = "model.layers.{}.";
  return {{"embed_tokens", "model.embed_tokens"},
          {"layers.{}.attention_norm", layer + "input_layernorm"},
          {"layers.{}.attention.query", layer + "self_attn.q_proj"},
          {"layers.{}.attention.key", layer + "self_attn.k_proj"},
          {"layers.{}.attention.value", layer + "self_attn.v_proj"},
          {"layers.{}.attention.output", layer + "self_attn.o_proj"},
          {"layers.{}.perceptron_norm", layer + "post_attention_layernorm"},
          {"layers.{}.perceptron.gate", layer + "mlp.gate_proj"},
          {"layers.{}.perceptron.up", layer + "mlp.up_proj"},
          {"layers.{}.perceptron.down", layer + "mlp.down_proj"},
          {"norm", "model.norm"},
          {"head", "lm_head"}};
}

}  // namespace detent
