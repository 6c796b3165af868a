#include "detent/language/language_config.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/ranges.h>

#include "detent/core/error.h"
#include "detent/language/families/config_reader.h"
#include "detent/language/families/families.h"
#include "detent/language/quantized/quantization.h"

namespace detent {
namespace {

struct Size {
  const char* name;
  int64_t value;
  int64_t least;
  int64_t most;
};

[[noreturn]] void refuse_type(const std::string& type, const std::string& where) {
  std::vector<std::string> types;
  for (const LanguageFamily& family : all_language_families())
    types.insert(types.end(), family.model_types.begin(), family.model_types.end());
  std::ranges::sort(types);
  const std::string nearest = nearest_name(type, types);
  const std::string hint = nearest.empty() ? "" : fmt::format(": did you mean \"{}\"?", nearest);
  fail("{}: unknown model_type \"{}\"{} (supported: {})", where, type, hint, fmt::join(types, ", "));
}

void check_rotary(const Rotary& rotary, const LanguageConfig& config, const std::string& where) {
  const auto size = std::ssize(rotary.frequencies);
  if (2 * size > config.head_size)
    fail("{}: {} elements of a head of {} turn", where, 2 * size, config.head_size);
  const bool has_long = !rotary.long_frequencies.empty();
  if (has_long && rotary.long_frequencies.size() != rotary.frequencies.size())
    fail("{}: {} frequencies of long sequences beside {}", where, rotary.long_frequencies.size(), size);
}

void check_experts(const LanguageConfig& config, const std::string& where) {
  const Experts& experts = config.experts;
  if (experts.count == 0) return;
  constexpr int64_t kMostWidth = int64_t{1} << 20;
  if (experts.used < 1 || experts.used > experts.count)
    fail("{}: {} of {} experts for each token, expected 1 to all", where, experts.used, experts.count);
  if (experts.intermediate < 1 || experts.intermediate > kMostWidth || experts.shared < 0 ||
      experts.shared > kMostWidth)
    fail("{}: experts of {} and {}, expected 1 to {}", where, experts.intermediate, experts.shared,
         kMostWidth);
  if (experts.groups < 1 || experts.count % experts.groups != 0 ||
      (experts.groups > 1 && experts.count < experts.group_shares * experts.groups))
    fail("{}: {} experts in {} groups, expected some of {} or more", where, experts.count, experts.groups,
         experts.group_shares);
  const int64_t usable = experts.groups_used * (experts.count / experts.groups);
  if (experts.groups_used < 1 || experts.groups_used > experts.groups || usable < experts.used)
    fail("{}: {} of {} groups of experts are used, for {} experts for each token", where, experts.groups_used,
         experts.groups, experts.used);
  if (!std::isfinite(experts.scale)) fail("{}: shares of experts are scaled by {}", where, experts.scale);
  if (!(experts.added_to_sum >= 0 && experts.added_to_sum < 1))
    fail("{}: {} is added to the sum of shares, expected 0 to 1", where, experts.added_to_sum);
  if (!(experts.least_sum > 0)) fail("{}: the least sum of shares is {}", where, experts.least_sum);
  if (!experts.layers.empty() && std::ssize(experts.layers) != config.layers)
    fail("{}: {} layers that have experts or not for {} layers", where, experts.layers.size(), config.layers);
}

void check_head(const NetworkHead& head, const std::string& where) {
  constexpr int64_t kMostLabels = int64_t{1} << 20;
  if (head.kind == HeadKind::kEmbedding && !head.layer.empty() && (head.size < 1 || head.size > kMostLabels))
    fail("{}: embeddings of {} elements, expected 1 to {}", where, head.size, kMostLabels);
  const bool has_none = head.kind == HeadKind::kNone || head.kind == HeadKind::kMaskedTokens ||
                        head.kind == HeadKind::kEmbedding;
  if (has_none) return;
  if (head.labels < 1 || head.labels > kMostLabels)
    fail("{}: the number of labels is {}, expected 1 to {}", where, head.labels, kMostLabels);
  if (head.kind == HeadKind::kSpan && head.labels != 2)
    fail("{}: {} labels for the start and the end of an answer, expected 2", where, head.labels);
}

void check_latent(const LanguageConfig& config, const std::string& where) {
  constexpr int64_t kMostRank = int64_t{1} << 20;
  const LatentAttention& latent = config.latent;
  if (latent.rank == 0) return;
  if (latent.rank < 0 || latent.rank > kMostRank || latent.query_rank < 0 || latent.query_rank > kMostRank)
    fail("{}: keys and values come out of rows of {} elements, queries of {}, expected 1 to {}", where,
         latent.rank, latent.query_rank, kMostRank);
  if (latent.turning < 1 || latent.turning >= config.head_size)
    fail("{}: {} of {} elements of a head turn, expected some and not all", where, latent.turning,
         config.head_size);
  if (config.kv_heads != config.heads)
    fail("{}: {} heads of keys for {} of queries, expected as many", where, config.kv_heads, config.heads);
  if (2 * std::ssize(config.rotary.frequencies) != latent.turning)
    fail("{}: {} frequencies for {} elements that turn, expected half as many", where,
         config.rotary.frequencies.size(), latent.turning);
}

/// Decoders whose tokens see those after them too, as networks of embeddings have them: what is a head of the
/// next token elsewhere is one of each token here.
void read_direction(const ConfigReader& json, LanguageConfig& config) {
  if (json.boolean("is_causal", config.is_causal) == config.is_causal) return;
  const bool depends = config.window > 0 || config.distance_slopes > 0 || config.position_offset > 0;
  if (!config.is_causal || depends || config.token_size() != config.hidden)
    json.refuse("is_causal", fmt::format("networks with other than {} are not supported",
                                         config.is_causal ? "true" : "false"));
  const auto classes = json.has("architectures") ? json.texts("architectures") : std::vector<std::string>{};
  const bool is_bare =
      !classes.empty() && classes.front().ends_with("Model") && !classes.front().ends_with("LMHeadModel");
  config.is_causal = false;
  if (config.head.kind == HeadKind::kNone && !is_bare) config.head.kind = HeadKind::kMaskedTokens;
}

void check_convolutions(const LanguageConfig& config, const std::string& where) {
  constexpr int64_t kMostTokens = 1 << 10;
  const ShortConvolution& convolution = config.short_convolution;
  if (convolution.width < 0 || convolution.width > kMostTokens)
    fail("{}: convolutions of {} tokens, expected 1 to {}", where, convolution.width, kMostTokens);
  if (convolution.width > 0 && std::ssize(convolution.layers) != config.layers)
    fail("{}: {} layers that convolve or not for {} layers", where, convolution.layers.size(), config.layers);
}

}  // namespace

double LanguageConfig::score_scale(int64_t layer) const {
  const double scale = attention_scale != 0 ? attention_scale : 1 / std::sqrt(static_cast<double>(head_size));
  return divides_by_layer ? scale / static_cast<double>(layer + 1) : scale;
}

std::vector<bool> all_but_each(int64_t layers, int64_t every) {
  std::vector<bool> others;
  for (int64_t layer = 0; layer < layers; ++layer) others.push_back((layer + 1) % every != 0);
  return others;
}

void check_language_config(const LanguageConfig& config, const std::string& where) {
  constexpr int64_t kMostRows = int64_t{1} << 24;
  constexpr int64_t kMostWidth = int64_t{1} << 20;
  constexpr int64_t kMostLayers = 4096;
  constexpr int64_t kMostContext = int64_t{1} << 31;
  constexpr double kMostSlopes = 64;
  const Size sizes[] = {{"the number of layers", config.layers, 1, kMostLayers},
                        {"the hidden size", config.hidden, 1, kMostWidth},
                        {"the number of heads", config.heads, 1, kMostWidth},
                        {"the number of heads of keys", config.kv_heads, 1, kMostWidth},
                        {"the size of a head", config.head_size, 1, kMostWidth},
                        {"the size of a head of values", config.size_of_values(), 1, kMostWidth},
                        {"the size of perceptrons", config.intermediate, 1, kMostWidth},
                        {"the vocabulary", config.vocabulary, 1, kMostRows},
                        {"the size of embedded tokens", config.token_size(), 1, kMostWidth},
                        {"the context", config.context, 1, kMostContext},
                        {"the window", config.window, 0, std::numeric_limits<int64_t>::max()},
                        {"the number of positions", config.positions, 0, kMostRows},
                        {"the first position", config.position_offset, 0, kMostRows},
                        {"the number of token types", config.token_types, 0, kMostRows},
                        {"the number of distances", config.distances, 0, kMostRows},
                        {"the number of experts", config.experts.count, 0, kMostLayers}};
  for (const Size& size : sizes) {
    if (size.value < size.least || size.value > size.most)
      fail("{}: {} is {}, expected {} to {}", where, size.name, size.value, size.least, size.most);
  }
  if (config.heads % config.kv_heads != 0)
    fail("{}: {} heads of queries for {} of keys, expected a multiple", where, config.heads, config.kv_heads);
  const int64_t largest = std::max(config.head_size, config.size_of_values());
  if (config.heads * largest > kMostWidth)
    fail("{}: {} heads of {}, expected at most {} elements", where, config.heads, largest, kMostWidth);
  if (!(config.norm_eps >= 0) || !(config.norm_eps < 1))
    fail("{}: the epsilon of norms is {}, expected 0 to 1", where, config.norm_eps);
  if (!config.has_window.empty() && std::ssize(config.has_window) != config.layers)
    fail("{}: {} windows for {} layers", where, config.has_window.size(), config.layers);
  if (!config.turns.empty() && std::ssize(config.turns) != config.layers)
    fail("{}: {} layers that turn or not for {} layers", where, config.turns.size(), config.layers);
  if (config.distances % 4 != 0 || (config.distances > 0 && config.is_causal))
    fail("{}: {} distances, expected a multiple of 4, in an encoder", where, config.distances);
  if (config.distances > 0 &&
      (config.most_distance <= config.distances / 4 || config.most_distance > kMostRows))
    fail("{}: distances up to {} for {} rows, expected more than {}", where, config.most_distance,
         config.distances, config.distances / 4);
  if (config.query_growth != 0 && (config.query_growth_from < 1 || !std::isfinite(config.query_growth)))
    fail("{}: queries grow by {} every {} tokens, expected at least 1", where, config.query_growth,
         config.query_growth_from);
  if (config.position_count == PositionCount::kUnpadded && !config.pad)
    fail("{}: positions that leave the padding out, and no padding", where);
  for (const auto& cap : {config.score_cap, config.logit_cap, config.qkv_limit}) {
    if (cap && !(*cap > 0)) fail("{}: a cap is {}, expected a number above 0", where, *cap);
  }
  if (!(config.distance_slopes >= 0 && config.distance_slopes <= kMostSlopes))
    fail("{}: the slopes of distances are {}, expected 0 to {}", where, config.distance_slopes, kMostSlopes);
  check_experts(config, where);
  check_convolutions(config, where);
  check_head(config.head, where);
  check_latent(config, where);
  check_rotary(config.rotary, config, where);
  check_rotary(config.window_rotary, config, where);
}

LanguageConfig read_language_config(const Value& json, const std::string& where) {
  const auto* table = json.get_if<Table>();
  if (table == nullptr) fail("{}: got {}, expected a table", where, json.kind_name());
  const ConfigReader reader(*table, where);
  if (!reader.has("model_type")) fail("{}: there is no key \"model_type\"", where);
  const std::string type = reader.text("model_type", "");
  const LanguageFamily* family = family_of_model_type(type);
  if (family == nullptr) refuse_type(type, where);
  const auto quantization = reader.table("quantization_config");
  if (quantization && !quantization->has("quant_method"))
    reader.refuse("quantization_config", "there is no quant_method");
  if (quantization && !is_quantization_of(*family, *quantization))
    static_cast<void>(find_quantization_method(*quantization).describe(*quantization));
  LanguageConfig config = family->config(reader);
  read_head(reader, *family, config);
  read_direction(reader, config);
  check_language_config(config, where);
  return config;
}

}  // namespace detent
