#include <algorithm>
#include <cctype>
#include <cmath>

#include <fmt/ranges.h>

#include "detent/core/error.h"
#include "detent/language/families/config_reader.h"
#include "detent/language/families/families.h"

namespace detent {
namespace {

constexpr const char* kOfQueries = "c2p";
constexpr const char* kOfKeys = "p2c";

/// A list, or a text with a bar between entries.
std::vector<std::string> entries_of(const ConfigReader& json, const char* key) {
  const Value* value = json.value(key);
  if (value == nullptr) return {};
  if (value->get_if<std::string>() == nullptr) return json.texts(key);
  std::vector<std::string> entries(1);
  for (const char c : json.text(key, "")) {
    if (c == '|') {
      entries.emplace_back();
    } else if (c != ' ') {
      entries.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return entries;
}

/// Entries of which each is one of `known`.
std::vector<std::string> known_entries(const ConfigReader& json, const char* key,
                                       const std::vector<std::string>& known) {
  std::vector<std::string> entries = entries_of(json, key);
  for (const std::string& entry : entries) {
    if (std::ranges::find(known, entry) == known.end())
      json.refuse(key, fmt::format("expected {}", fmt::join(known, " or ")));
  }
  return entries;
}

void read_distances(const ConfigReader& json, LanguageConfig& config) {
  constexpr int64_t kMostTokens = 1 << 16;  // whose distances are a table
  const auto terms = known_entries(json, "pos_att_type", {kOfQueries, kOfKeys});
  const bool of_queries = std::ranges::find(terms, kOfQueries) != terms.end();
  const bool of_keys = std::ranges::find(terms, kOfKeys) != terms.end();
  const int products = 1 + static_cast<int>(of_queries) + static_cast<int>(of_keys);
  config.attention_scale = 1 / std::sqrt(static_cast<double>(config.head_size * products));
  const auto norms = known_entries(json, "norm_rel_ebd", {"none", "layer_norm"});
  if (!json.boolean("relative_attention", false)) return;
  int64_t most = json.integer("max_relative_positions", -1);
  const char* key = most < 1 ? "max_position_embeddings" : "max_relative_positions";
  if (most < 1) most = config.context;
  if (most < 1 || most > kMostTokens) json.refuse(key, fmt::format("expected 1 to {}", kMostTokens));
  const int64_t buckets = json.integer("position_buckets", -1);
  if (buckets > 0 && (buckets < 4 || buckets > kMostTokens || most - 1 <= buckets / 2))
    json.refuse("position_buckets", fmt::format("expected 4 or more, half of them below {}, {}", key, most));
  config.disentangled = {.span = buckets > 0 ? buckets : most,
                         .most_distance = buckets > 0 ? most : 0,
                         .of_queries = of_queries,
                         .of_keys = of_keys,
                         .shares_layers = json.boolean("share_att_key", false),
                         .norm = std::ranges::find(norms, "layer_norm") != norms.end()};
}

void read_convolution(const ConfigReader& json, LanguageConfig& config) {
  constexpr int64_t kMostWidth = 1 << 10;
  TextConvolution& convolution = config.convolution;
  convolution.width = std::max<int64_t>(json.integer("conv_kernel_size", 0), 0);
  if (convolution.width == 0) return;
  if (convolution.width % 2 == 0 || convolution.width > kMostWidth)
    json.refuse("conv_kernel_size", fmt::format("expected an odd number up to {}", kMostWidth));
  convolution.groups = json.integer("conv_groups", 1);
  if (convolution.groups < 1 || config.hidden % convolution.groups != 0)
    json.refuse("conv_groups", fmt::format("expected a divisor of hidden_size, {}", config.hidden));
  convolution.activation = json.activation("conv_act", "tanh");
}

std::vector<HeadClass> deberta_v2_classes(const ConfigReader& json, const LanguageConfig& /*config*/) {
  const Activation activation = json.activation("pooler_hidden_act", "gelu");
  return usual_classes(sequence_head("pooler", activation), choice_head("pooler", activation));
}

LanguageConfig read_deberta_v2(const ConfigReader& json) {
  LanguageConfig config = read_encoder(json, "deberta-v2");
  if (config.heads < 1 || config.hidden % config.heads != 0)
    json.refuse("num_attention_heads", fmt::format("expected a divisor of hidden_size, {}", config.hidden));
  config.head_size = config.hidden / config.heads;
  json.expect("attention_head_size", config.head_size);
  json.expect("embedding_size", config.hidden);
  json.expect("pooler_hidden_size", config.hidden);
  config.norm_eps = json.number("layer_norm_eps", 1e-7);
  config.token_types = json.integer("type_vocab_size", 0);
  if (!json.boolean("position_biased_input", true)) config.positions = 0;
  read_distances(json, config);
  read_convolution(json, config);
  const std::vector<std::string> classes =
      json.has("architectures") ? json.texts("architectures") : std::vector<std::string>{};
  const bool has_masked_tokens = !classes.empty() && classes.front() == "DebertaV2ForMaskedLM";
  if (has_masked_tokens && !json.boolean("legacy", true)) config.tied_head = true;
  return config;
}

std::vector<StoredName> deberta_v2_weights() {
  std::vector<StoredName> rules = encoder_weights("deberta.");
  const std::string attention = "deberta.encoder.layer.{}.attention.self.";
  for (StoredName& rule : rules) {
    if (rule.name == "layers.{}.attention.query") rule.stored = attention + "query_proj";
    if (rule.name == "layers.{}.attention.key") rule.stored = attention + "key_proj";
    if (rule.name == "layers.{}.attention.value") rule.stored = attention + "value_proj";
  }
  const std::vector<StoredName> more = {{"layers.{}.attention.distance_query", attention + "pos_query_proj"},
                                        {"layers.{}.attention.distance_key", attention + "pos_key_proj"},
                                        {"distance_rows", "deberta.encoder.rel_embeddings"},
                                        {"distance_norm", "deberta.encoder.LayerNorm"},
                                        {"text_convolution", "deberta.encoder.conv.conv"},
                                        {"text_convolution_norm", "deberta.encoder.conv.LayerNorm"},
                                        {"pooler", "pooler.dense"},
                                        {"classifier", "classifier"},
                                        {"answer_span", "qa_outputs"},
                                        {"head_layer", "cls.predictions.transform.dense"},
                                        {"head_layer", "lm_predictions.lm_head.dense"},
                                        {"head_norm", "cls.predictions.transform.LayerNorm"},
                                        {"head_norm", "lm_predictions.lm_head.LayerNorm"},
                                        {"head", "cls.predictions.decoder"},
                                        {"head", "cls.predictions"},
                                        {"head", "lm_predictions.lm_head"}};
  rules.insert(rules.end(), more.begin(), more.end());
  return rules;
}

}  // namespace

LanguageFamily deberta_v2_family() {
  std::vector<std::string> ignored = encoder_heads();
  ignored.insert(ignored.end(),
                 {"lm_predictions.", "mask_predictions.", "position_embeddings.", "encoder.LayerNorm."});
  return {.name = "deberta-v2",
          .model_types = {"deberta-v2"},
          .help = "DeBERTa v2 and v3, encoders with their heads",
          .config = read_deberta_v2,
          .weights = deberta_v2_weights,
          .ignored = ignored,
          .class_names = {"DebertaV2"},
          .classes = deberta_v2_classes};
}

}  // namespace detent
