#include "detent/language/language_weights.h"

#include <algorithm>
#include <cmath>

#include "detent/core/error.h"
#include "detent/language/language_graph.h"

namespace detent {
namespace {

constexpr const char* kTokenTable = "embed_tokens.weight";

std::vector<float> numbers_of(const Tensor& tensor) {
  return {tensor.values<float>().begin(), tensor.values<float>().end()};
}

class RuledMatrices final : public DeferredWeights {
 public:
  RuledMatrices(LanguageConfig config, std::vector<StoredName> rules, std::vector<std::string> ignored,
                std::unique_ptr<StoredTensors> stored)
      : config_(std::move(config)),
        stored_(std::move(stored)),
        ruled_(config_, std::move(rules), std::move(ignored), *stored_) {}

  const LanguageConfig& config() const { return config_; }
  RuledWeights& ruled() { return ruled_; }

  Layer layer(const std::string& name, const Shape& shape) const override {
    const std::string asked = config_.tied_head && name == "head.weight" ? kTokenTable : name;
    Layer layer{ruled_.read(asked, shape)};
    const std::optional<StoredScales> scales = stored_->scales(ruled_.stored_name(asked));
    if (!scales) return layer;
    const std::optional<Tensor> rows = ruled_.rows_of_weight(asked, scales->scales);
    if (!rows) return layer;
    layer.scales = {.scales = numbers_of(*rows),
                    .group = scales->group,
                    .are_float8 = scales->are_float8,
                    .table = scales->table,
                    .group_of = scales->block_of};
    if (scales->minimums)
      layer.scales.minimums = numbers_of(*ruled_.rows_of_weight(asked, *scales->minimums));
    return layer;
  }

  Tensor rows(const std::string& name, std::span<const int64_t> indices) const override {
    const std::string stored = ruled_.stored_name(name);
    Tensor rows = stored_->rows(stored, indices);
    if (!std::ranges::all_of(rows.values<float>(), [](float x) { return std::isfinite(x); }))
      fail("{}: {} has infinities or NaN", stored_->where(), stored);
    return rows;
  }

 private:
  LanguageConfig config_;
  std::unique_ptr<StoredTensors> stored_;
  RuledWeights ruled_;
};

/// Norms, biases and small tables, and of other matrices the shapes alone.
class MatrixShapes final : public WeightSource {
 public:
  explicit MatrixShapes(RuledWeights& weights) : weights_(weights) {}

  Tensor tensor(const std::string& name, const Shape& shape) override {
    const bool is_small_table = name.starts_with("embed_") && name != kTokenTable;
    if (shape.size() != 2 || is_small_table || name.ends_with("norm.weight"))
      return weights_.tensor(name, shape);
    return Tensor::borrow(DType::kFloat32, shape, nullptr, nullptr);
  }

 private:
  RuledWeights& weights_;
};

}  // namespace

LanguageModel deferred_model(LanguageConfig config, std::vector<StoredName> rules,
                             std::vector<std::string> ignored, std::unique_ptr<StoredTensors> stored) {
  const auto weights = std::make_shared<RuledMatrices>(std::move(config), std::move(rules),
                                                       std::move(ignored), std::move(stored));
  MatrixShapes shapes(weights->ruled());
  Graph graph = build_language_graph(weights->config(), shapes);
  weights->ruled().round_inputs_of(graph);
  return {weights->config(), std::move(graph), weights};
}

}  // namespace detent
