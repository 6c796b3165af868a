#include "detent/language/language_weights.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/ranges.h>

#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/language/families/families.h"
#include "detent/language/language_graph.h"
#include "detent/language/quantized/quantization.h"

namespace detent {
namespace {

constexpr size_t kMostListed = 8;

std::string listed(const std::vector<std::string>& names) {
  const std::span<const std::string> first(names.data(), std::min(names.size(), kMostListed));
  const std::string rest =
      names.size() > kMostListed ? fmt::format(" and {} more", names.size() - kMostListed) : "";
  return fmt::format("{}{}", fmt::join(first, ", "), rest);
}

/// "layers.3.experts.5.up.weight" as "layers.{}.experts.{}.up", "3", "5" and ".weight".
struct NameParts {
  std::string pattern;
  std::string layer;
  std::string expert;
  std::string end;

  explicit NameParts(const std::string& name) {
    const size_t point = name.rfind('.');
    end = name.substr(point);
    pattern = name.substr(0, point);
    constexpr std::string_view kLayers = "layers.";
    if (!pattern.starts_with(kLayers)) return;
    const size_t after = pattern.find('.', kLayers.size());
    layer = pattern.substr(kLayers.size(), after - kLayers.size());
    pattern = fmt::format("{}{{}}{}", kLayers, pattern.substr(after));
    constexpr std::string_view kExperts = "layers.{}.experts.";
    if (!pattern.starts_with(kExperts)) return;
    const std::string rest = pattern.substr(kExperts.size());
    const size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
    if (digits == 0) return;
    expert = rest.substr(0, digits);
    pattern = fmt::format("{}{{}}{}", kExperts, rest.substr(digits));
  }

  std::string stored(const StoredName& rule) const {
    std::string name = rule.stored;
    for (const std::string& number : {layer, expert}) {
      const size_t place = name.find("{}");
      if (place != std::string::npos) name.replace(place, 2, number);
    }
    return name + end;
  }
};

/// Where rows [begin, begin + count) of a stored tensor are a part.
struct Rows {
  int64_t begin;
  int64_t count;
};

/// The tensor has `all` rows.
Rows rows_of(const LanguageConfig& config, WeightPart part, int64_t all) {
  const int64_t queries = config.heads * config.head_size;
  const int64_t keys = config.kv_heads * config.head_size;
  switch (part) {
    case WeightPart::kQuery:
      return {0, queries};
    case WeightPart::kKey:
      return {queries, keys};
    case WeightPart::kValue:
      return {queries + keys, keys};
    case WeightPart::kGate:
      return {0, all / 2};
    case WeightPart::kUp:
      return {all / 2, all / 2};
    case WeightPart::kLatent:
      return {0, config.latent.rank};
    case WeightPart::kTurningKey:
      return {config.latent.rank, config.latent.turning};
    default:
      break;
  }
  return {0, -1};
}

bool is_of_perceptron(WeightPart part) {
  return part == WeightPart::kGate || part == WeightPart::kUp || part == WeightPart::kGateOfPairs ||
         part == WeightPart::kUpOfPairs;
}

/// The same rows of every group of `all` rows.
struct GroupRows {
  int64_t begin;
  int64_t count;
  int64_t all;
};

/// Groups are [queries; key; value] of each head of keys, gate and up, or [key; value] of a head.
std::optional<GroupRows> group_rows(const LanguageConfig& config, WeightPart part) {
  const int64_t size = config.head_size;
  const int64_t queries = config.heads / config.kv_heads * size;
  const int64_t plain = size - config.latent.turning;
  const int64_t quarter = config.heads * size / 4;
  switch (part) {
    case WeightPart::kQueryOfHeads:
      return GroupRows{0, queries, queries + 2 * size};
    case WeightPart::kKeyOfHeads:
      return GroupRows{queries, size, queries + 2 * size};
    case WeightPart::kValueOfHeads:
      return GroupRows{queries + size, size, queries + 2 * size};
    case WeightPart::kGateOfPairs:
      return GroupRows{0, 1, 2};
    case WeightPart::kUpOfPairs:
      return GroupRows{1, 1, 2};
    case WeightPart::kQueryOfQuarters:
      return GroupRows{0, quarter, 3 * quarter};
    case WeightPart::kValueOfQuarters:
      return GroupRows{quarter, quarter, 3 * quarter};
    case WeightPart::kKeyOfQuarters:
      return GroupRows{2 * quarter, quarter, 3 * quarter};
    case WeightPart::kKeyOfLatent:
      return GroupRows{0, plain, plain + config.size_of_values()};
    case WeightPart::kValueOfLatent:
      return GroupRows{plain, config.size_of_values(), plain + config.size_of_values()};
    default:
      return std::nullopt;
  }
}

Tensor rows_of_groups(const Tensor& whole, const GroupRows& rows) {
  const int64_t groups = whole.dim(0) / rows.all;
  Shape shape = whole.shape();
  shape[0] = groups * rows.count;
  Tensor result(whole.dtype(), shape);
  auto to = result.bytes().begin();
  for (int64_t group = 0; group < groups; ++group) {
    const int64_t begin = group * rows.all + rows.begin;
    to = std::ranges::copy(whole.rows(begin, begin + rows.count).bytes(), to).out;
  }
  return result;
}

/// The shape that a stored tensor has to have, so that its part has `shape`.
Shape stored_shape(const LanguageConfig& config, const StoredName& rule, Shape shape) {
  if (is_of_perceptron(rule.part)) {
    shape[0] *= 2;
  } else if (rule.part == WeightPart::kLatent || rule.part == WeightPart::kTurningKey) {
    shape[0] = config.latent.rank + config.latent.turning;
  } else if (rule.part == WeightPart::kKeyOfLatent || rule.part == WeightPart::kValueOfLatent) {
    shape[0] = config.heads * (config.head_size - config.latent.turning + config.size_of_values());
  } else if (rule.part == WeightPart::kTransposedHeads) {
    return {config.heads * shape[1], shape[0] / config.heads};
  } else if (rule.part != WeightPart::kWhole) {
    shape[0] = (config.heads + 2 * config.kv_heads) * config.head_size;
  }
  if (rule.transposed && shape.size() == 2) std::swap(shape[0], shape[1]);
  return shape;
}

Tensor transposed(const Tensor& matrix) {
  const int64_t rows = matrix.dim(0);
  const int64_t columns = matrix.dim(1);
  Tensor result(DType::kFloat32, {columns, rows});
  const float* from = matrix.values<float>().data();
  float* to = result.values<float>().data();
  parallel_for(columns, 16, [&](int64_t begin, int64_t end) {
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = begin; column < end; ++column)
        to[column * rows + row] = from[row * columns + column];
    }
  });
  return result;
}

/// Matrices of heads, one after another, each transposed.
Tensor transposed_heads(const Tensor& rows, int64_t heads) {
  const int64_t size = rows.dim(0) / heads;
  Tensor result(DType::kFloat32, {heads * rows.dim(1), size});
  auto to = result.bytes().begin();
  for (int64_t head = 0; head < heads; ++head)
    to = std::ranges::copy(transposed(rows.rows(head * size, (head + 1) * size)).bytes(), to).out;
  return result;
}

Tensor with_one_added(const Tensor& tensor) {
  Tensor result = tensor.clone();
  for (float& x : result.values<float>()) x += 1;
  return result;
}

/// Remembers names and shapes; large tensors have no elements in memory.
class ShapeSource final : public WeightSource {
 public:
  Tensor tensor(const std::string& name, const Shape& shape) override {
    seen.push_back({name, shape});
    constexpr int64_t kMostElements = 1024;  // that the inference of shapes may compute with
    if (element_count(shape) <= kMostElements) return Tensor(DType::kFloat32, shape);
    return Tensor::borrow(DType::kFloat32, shape, nullptr, nullptr);
  }
  std::vector<NamedShape> seen;
};

std::string without_prefix(const std::string& name) { return name.substr(name.find('.') + 1); }

/// The family of which most names are there and fewest are not.
std::string nearest_family(const std::vector<std::string>& stored) {
  int64_t most = 0;
  std::string nearest;
  const std::set<std::string> names(stored.begin(), stored.end());
  for (const LanguageFamily& family : all_language_families()) {
    int64_t score = 0;
    for (const StoredName& rule : family.weights()) {
      if (!rule.name.starts_with("layers.")) continue;
      const std::string name = NameParts("layers.0.x.weight").stored(rule);
      score += names.contains(name) || names.contains(without_prefix(name)) ? 1 : -1;
    }
    if (score > most) {
      most = score;
      nearest = family.name;
    }
  }
  return nearest;
}

}  // namespace

std::string name_of_expert(const std::string& name, int64_t expert) {
  const size_t point = name.rfind('.');
  return fmt::format("{}.{}{}", name.substr(0, point), expert, name.substr(point));
}

std::vector<NamedShape> expected_weights(const LanguageConfig& config) {
  ShapeSource shapes;
  static_cast<void>(build_language_graph(config, shapes));
  return shapes.seen;
}

RuledWeights::RuledWeights(const LanguageConfig& config, std::vector<StoredName> rules,
                           std::vector<std::string> ignored, StoredTensors& stored)
    : config_(config), rules_(std::move(rules)), ignored_(std::move(ignored)), stored_(stored) {
  check();
}

RuledWeights::Found RuledWeights::find(const std::string& name) const {
  const NameParts parts(name);
  Found found;
  for (const StoredName& rule : rules_) {
    if (rule.name != parts.pattern) continue;
    const std::string whole = parts.stored(rule);
    std::vector<std::string> names = {whole};
    // Norms as TensorFlow calls their weights; BERT's first files still do.
    if (parts.end == ".weight") {
      names.push_back(whole.substr(0, whole.rfind('.')));
    } else {
      names.push_back(whole.substr(0, whole.rfind('.')) + "_bias");
    }
    if (parts.pattern.ends_with("norm"))
      names.push_back(whole.substr(0, whole.rfind('.')) + (parts.end == ".weight" ? ".gamma" : ".beta"));
    for (const std::string& stored : names) {
      for (const std::string& candidate : {stored, without_prefix(stored)}) {
        if (stored_.shape(candidate)) return {&rule, candidate, true};
      }
    }
    if (found.rule == nullptr) found = {&rule, whole, false};
  }
  if (found.rule == nullptr)
    fail("{}: networks of the family \"{}\" have no tensor for {}", stored_.where(), config_.family, name);
  return found;
}

bool RuledWeights::is_of_further_layer(const std::string& name) const {
  for (int64_t layer = config_.layers; layer < config_.layers + config_.further_layers; ++layer) {
    if (name.starts_with(fmt::format("model.layers.{}.", layer))) return true;
  }
  return false;
}

void RuledWeights::check() const {
  const auto stored = std::ssize(stored_.names());
  if (stored < config_.layers)
    fail("{}: {} tensors, for a network of {} layers", stored_.where(), stored, config_.layers);
  std::vector<std::string> missing;
  std::vector<std::string> wrong;
  std::set<std::string> used;
  for (const NamedShape& weight : expected_weights(config_)) {
    const Found found = find(weight.name);
    used.insert(found.stored);
    if (!found.is_there) {
      if (std::ranges::find(missing, found.stored) == missing.end()) missing.push_back(found.stored);
      continue;
    }
    const Shape expected = stored_shape(config_, *found.rule, weight.shape);
    const Shape given = *stored_.shape(found.stored);
    if (given != expected)
      wrong.push_back(
          fmt::format("{} has shape {}, expected {}", found.stored, shape_text(given), shape_text(expected)));
  }
  const auto head = std::ranges::find(rules_, "head", &StoredName::name);
  std::vector<std::string> unused;
  for (const std::string& name : stored_.names()) {
    const auto is_part = [&](const std::string& part) { return name.find(part) != std::string::npos; };
    const bool has_no_head = config_.tied_head || !config_.has_vocabulary_head();
    const bool is_other_head = has_no_head && head != rules_.end() && name.starts_with(head->stored + ".");
    if (!used.contains(name) && !is_other_head && !is_of_further_layer(name) &&
        std::ranges::none_of(ignored_, is_part))
      unused.push_back(name);
  }
  std::vector<std::string> faults;
  if (!missing.empty()) faults.push_back("tensors are missing: " + listed(missing));
  if (!wrong.empty()) faults.push_back(listed(wrong));
  if (!unused.empty()) faults.push_back("the network has no place for " + listed(unused));
  if (faults.empty()) return;
  const std::string nearest = nearest_family(stored_.names());
  const bool is_other = !nearest.empty() && nearest != config_.family;
  fail("{}: {}{}", stored_.where(), fmt::join(faults, "; "),
       is_other ? fmt::format(" (its names are those of the family \"{}\", its config says \"{}\")", nearest,
                              config_.family)
                : "");
}

namespace {

/// Each row of a head at another place.
template <class Place>
Tensor moved_rows(const Tensor& rows, int64_t head_size, Place place) {
  Tensor result(rows.dtype(), rows.shape());
  const auto row_bytes = rows.byte_size() / static_cast<size_t>(rows.dim(0));
  for (int64_t row = 0; row < rows.dim(0); ++row) {
    const int64_t within = row % head_size;
    const int64_t target = row - within + place(within);
    const auto from = rows.bytes().subspan(static_cast<size_t>(row) * row_bytes, row_bytes);
    std::ranges::copy(from, result.bytes().begin() + static_cast<int64_t>(row_bytes) * target);
  }
  return result;
}

/// Heads that end with the elements that turn, with those first.
Tensor turning_first(const Tensor& rows, int64_t head_size, int64_t turning) {
  return moved_rows(rows, head_size, [&](int64_t within) { return (within + turning) % head_size; });
}

}  // namespace

Tensor unpaired_rows(const Tensor& paired, int64_t head_size, int64_t turning) {
  const int64_t half = turning / 2;
  return moved_rows(paired, head_size, [&](int64_t within) {
    return within < turning ? within % 2 * half + within / 2 : within;
  });
}

/// Weights of norms of heads, in the order of their rows.
Tensor unpaired_elements(const Tensor& weights, const LanguageConfig& config) {
  const int64_t turning = 2 * std::ssize(config.window_rotary.frequencies);
  return unpaired_rows(weights.reshaped({weights.numel()}), config.head_size, turning)
      .reshaped(weights.shape());
}

void RuledWeights::round_inputs_of(Graph& graph) const {
  round_inputs(graph, [&](const std::string& weight) -> std::optional<QuantSpec> {
    if (config_.tied_head && weight == "head.weight") return std::nullopt;
    return stored_.input_rounding(find(weight).stored);
  });
}

Tensor RuledWeights::part_of(const Tensor& whole, WeightPart part) const {
  if (part == WeightPart::kWhole) return whole;
  if (part == WeightPart::kTransposedHeads) return transposed_heads(whole, config_.heads);
  if (const auto rows = group_rows(config_, part)) return rows_of_groups(whole, *rows);
  const Rows rows = rows_of(config_, part, whole.dim(0));
  return whole.rows(rows.begin, rows.begin + rows.count);
}

/// Rows of queries and keys in the order of the network.
Tensor RuledWeights::ordered(const std::string& pattern, const Tensor& rows) const {
  const bool are_queries = pattern.ends_with("attention.query");
  const bool are_keys = pattern.ends_with("attention.key");
  const int64_t turning = 2 * std::ssize(config_.window_rotary.frequencies);
  if (config_.latent.rank == 0) {
    const bool is_paired = config_.turns_neighbours && (are_queries || are_keys);
    return is_paired ? unpaired_rows(rows, config_.head_size, turning) : rows;
  }
  if (pattern.ends_with("attention.turning_key"))
    return config_.turns_neighbours ? unpaired_rows(rows, turning, turning) : rows;
  if (!are_queries) return rows;
  const Tensor moved = turning_first(rows, config_.head_size, turning);
  return config_.turns_neighbours ? unpaired_rows(moved, config_.head_size, turning) : moved;
}

std::optional<Tensor> RuledWeights::rows_of_weight(const std::string& name, const Tensor& whole) const {
  const WeightPart part = find(name).rule->part;
  if (part == WeightPart::kTransposedHeads) return std::nullopt;
  return ordered(NameParts(name).pattern, part_of(whole, part));
}

Tensor RuledWeights::whole(const Found& found) const {
  if (!found.is_there) fail("{}: there is no tensor {}", stored_.where(), found.stored);
  Tensor values = stored_.values(found.stored);
  if (values.dtype() != DType::kFloat32)
    fail("{}: {} is {}, expected floats", stored_.where(), found.stored, dtype_name(values.dtype()));
  if (!values.is_finite()) fail("{}: {} has infinities or NaN", stored_.where(), found.stored);
  return found.rule->transposed && values.rank() == 2 ? transposed(values) : values;
}

Tensor RuledWeights::taken(const std::string& name, const Found& found, const Tensor& whole,
                           const Shape& shape) const {
  Tensor part = part_of(whole, found.rule->part);
  if (part.shape() != shape)
    fail("{}: {} has shape {}, expected {}", stored_.where(), found.stored, shape_text(part.shape()),
         shape_text(shape));
  const std::string pattern = NameParts(name).pattern;
  const bool is_norm_of_heads =
      pattern.ends_with("attention.query_norm") || pattern.ends_with("attention.key_norm");
  if (config_.turns_neighbours && is_norm_of_heads) part = unpaired_elements(part, config_);
  part = ordered(pattern, part);
  const bool is_norm = pattern.ends_with("norm") && name.ends_with(".weight");
  return config_.norm_adds_one && is_norm ? with_one_added(part) : part;
}

Tensor RuledWeights::tensor(const std::string& name, const Shape& shape) {
  const Found found = find(name);
  if (last_name_ != found.stored) {
    last_ = whole(found);
    last_name_ = found.stored;
  }
  return taken(name, found, last_, shape);
}

Tensor RuledWeights::read(const std::string& name, const Shape& shape) const {
  const Found found = find(name);
  return taken(name, found, whole(found), shape);
}

}  // namespace detent
