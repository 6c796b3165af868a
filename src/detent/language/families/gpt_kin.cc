#include "detent/core/error.h"
#include "detent/language/families/config_reader.h"
#include "detent/language/families/families.h"

namespace detent {
namespace {

constexpr int64_t kGptWidth = 4;

/// Layer norms before, plain perceptrons with biases.
LanguageConfig read_gpt_kin(const ConfigReader& json, const std::string& family, const SizeKeys& keys,
                            bool is_tied) {
  LanguageConfig config = common_config(json, family, is_tied);
  read_sizes_as(json, keys, config);
  config.norm = NormKind::kLayerNorm;
  config.norm_eps = json.number("layer_norm_epsilon", 1e-5);
  config.perceptron = PerceptronKind::kPlain;
  config.activation = json.activation("activation_function", "gelu_new");
  config.perceptron_bias = true;
  return config;
}

/// Pairs of neighbours in a part of each head turn; the perceptron beside attention, after the same norm.
LanguageConfig read_gptj(const ConfigReader& json) {
  constexpr int64_t kTurning = 64;
  LanguageConfig config = read_gpt_kin(json, "gptj", {"n_layer", "n_embd", "n_head"}, false);
  config.context = json.integer("n_positions", 2048);
  config.intermediate = json.integer("n_inner", kGptWidth * config.hidden);
  config.perceptron_place = PerceptronPlace::kBesideOneNorm;
  config.head_bias = true;
  const int64_t turning = json.integer("rotary_dim", kTurning);
  if (turning < 2 || turning > config.head_size || turning % 2 != 0)
    json.refuse("rotary_dim", fmt::format("expected an even number up to {}", config.head_size));
  config.rotary = config.window_rotary = rotary_of({}, turning, config.context);
  config.turns_neighbours = true;
  return config;
}

std::vector<StoredName> gptj_weights() {
  const std::string layer = "transformer.h.{}.";
  return {{"embed_tokens", "transformer.wte"},
          {"layers.{}.attention_norm", layer + "ln_1"},
          {"layers.{}.attention.query", layer + "attn.q_proj"},
          {"layers.{}.attention.key", layer + "attn.k_proj"},
          {"layers.{}.attention.value", layer + "attn.v_proj"},
          {"layers.{}.attention.output", layer + "attn.out_proj"},
          {"layers.{}.perceptron.up", layer + "mlp.fc_in"},
          {"layers.{}.perceptron.down", layer + "mlp.fc_out"},
          {"norm", "transformer.ln_f"},
          {"head", "lm_head"}};
}

/// As GPT-J, with joined tensors.
LanguageConfig read_codegen(const ConfigReader& json) {
  constexpr int64_t kShards = 4;
  LanguageConfig config = read_gptj(json);
  config.family = "codegen";
  if (config.hidden % kShards != 0) json.refuse("n_embd", "expected a multiple of 4");
  return config;
}

/// Queries, values and keys of a quarter of the heads after each other.
std::vector<StoredName> codegen_weights() {
  const std::string qkv = "transformer.h.{}.attn.qkv_proj";
  std::vector<StoredName> rules = gptj_weights();
  for (StoredName& rule : rules) {
    if (rule.name == "layers.{}.attention.query") rule = {rule.name, qkv, WeightPart::kQueryOfQuarters};
    if (rule.name == "layers.{}.attention.key") rule = {rule.name, qkv, WeightPart::kKeyOfQuarters};
    if (rule.name == "layers.{}.attention.value") rule = {rule.name, qkv, WeightPart::kValueOfQuarters};
  }
  return rules;
}

/// Learned positions, every other layer with a window; scores are not divided by anything.
LanguageConfig read_gpt_neo(const ConfigReader& json) {
  constexpr int64_t kWindow = 256;
  LanguageConfig config = read_gpt_kin(json, "gpt_neo", {"num_layers", "hidden_size", "num_heads"}, true);
  config.context = config.positions = json.integer("max_position_embeddings", 2048);
  config.intermediate = json.integer("intermediate_size", kGptWidth * config.hidden);
  config.output_bias = true;
  config.attention_scale = 1;
  config.window = json.integer("window_size", kWindow);
  if (!json.has("attention_layers")) {
    for (int64_t layer = 0; layer < config.layers; ++layer) config.has_window.push_back(layer % 2 == 1);
    return config;
  }
  for (const std::string& kind : json.texts("attention_layers")) {
    if (kind != "global" && kind != "local") json.refuse("attention_layers", "expected global or local");
    config.has_window.push_back(kind == "local");
  }
  return config;
}

std::vector<StoredName> gpt_neo_weights() {
  const std::string layer = "transformer.h.{}.";
  const std::string attention = layer + "attn.attention.";
  return {{"embed_tokens", "transformer.wte"},
          {"embed_positions", "transformer.wpe"},
          {"layers.{}.attention_norm", layer + "ln_1"},
          {"layers.{}.attention.query", attention + "q_proj"},
          {"layers.{}.attention.key", attention + "k_proj"},
          {"layers.{}.attention.value", attention + "v_proj"},
          {"layers.{}.attention.output", attention + "out_proj"},
          {"layers.{}.perceptron_norm", layer + "ln_2"},
          {"layers.{}.perceptron.up", layer + "mlp.c_fc"},
          {"layers.{}.perceptron.down", layer + "mlp.c_proj"},
          {"norm", "transformer.ln_f"},
          {"head", "lm_head"}};
}

/// Learned positions, one head of keys for all queries.
LanguageConfig read_gpt_bigcode(const ConfigReader& json) {
  LanguageConfig config = read_gpt_kin(json, "gpt_bigcode", {"n_layer", "n_embd", "n_head"}, true);
  if (json.boolean("multi_query", true)) config.kv_heads = 1;
  config.context = config.positions = json.integer("n_positions", 1024);
  config.intermediate = json.integer("n_inner", kGptWidth * config.hidden);
  config.activation = json.activation("activation_function", "gelu_pytorch_tanh");
  config.qkv_bias = config.output_bias = true;
  json.expect("add_cross_attention", false);
  if (!json.boolean("scale_attn_weights", true)) config.attention_scale = 1;
  return config;
}

std::vector<StoredName> gpt_bigcode_weights() {
  const std::string layer = "transformer.h.{}.";
  const std::string qkv = layer + "attn.c_attn";
  return {{"embed_tokens", "transformer.wte"},
          {"embed_positions", "transformer.wpe"},
          {"layers.{}.attention_norm", layer + "ln_1"},
          {"layers.{}.attention.query", qkv, WeightPart::kQueryOfHeads},
          {"layers.{}.attention.key", qkv, WeightPart::kKeyOfHeads},
          {"layers.{}.attention.value", qkv, WeightPart::kValueOfHeads},
          {"layers.{}.attention.output", layer + "attn.c_proj"},
          {"layers.{}.perceptron_norm", layer + "ln_2"},
          {"layers.{}.perceptron.up", layer + "mlp.c_fc"},
          {"layers.{}.perceptron.down", layer + "mlp.c_proj"},
          {"norm", "transformer.ln_f"},
          {"head", "lm_head"}};
}

const std::vector<std::string>& stored_masks() {
  static const std::vector<std::string> kMasks = {".attn.bias", ".attn.masked_bias", ".attention.bias",
                                                  ".attention.masked_bias"};
  return kMasks;
}

}  // namespace

LanguageFamily gptj_family() {
  return {.name = "gptj",
          .model_types = {"gptj"},
          .help = "GPT-J",
          .config = read_gptj,
          .weights = gptj_weights,
          .ignored = stored_masks()};
}

LanguageFamily codegen_family() {
  return {.name = "codegen",
          .model_types = {"codegen"},
          .help = "CodeGen",
          .config = read_codegen,
          .weights = codegen_weights,
          .ignored = {".attn.bias", ".attn.masked_bias", ".attn.causal_mask"}};
}

LanguageFamily gpt_neo_family() {
  return {.name = "gpt_neo",
          .model_types = {"gpt_neo"},
          .help = "GPT-Neo and TinyStories",
          .config = read_gpt_neo,
          .weights = gpt_neo_weights,
          .ignored = stored_masks()};
}

LanguageFamily gpt_bigcode_family() {
  return {.name = "gpt_bigcode",
          .model_types = {"gpt_bigcode"},
          .help = "StarCoder 1, SantaCoder, Granite of code",
          .config = read_gpt_bigcode,
          .weights = gpt_bigcode_weights,
          .ignored = stored_masks()};
}

}  // namespace detent
