#include "detent/graph/traits.h"

#include "detent/core/error.h"
#include "detent/graph/operators.h"

namespace detent {
namespace {

const WeightedSum& weighted_sum_of(const Node& node) {
  const auto* sum = trait<WeightedSum>(node);
  DETENT_CHECK(sum != nullptr, "node {} ({}) is no weighted sum", node.name, node.op);
  return *sum;
}

/// A function of one tensor and numbers is one of that tensor's elements.
bool has_numbers_after_first(const Node& node) {
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    double scratch = 0;
    const NodeInput& input = node.inputs[i];
    if (!input.is_constant() || (!input.is_absent() && input.constant.number(scratch) == nullptr))
      return false;
  }
  return true;
}

}  // namespace

OperatorRole role_of(const Node& node) {
  const OperatorSchema* schema = known_operator(node.op);
  return schema == nullptr ? OperatorRole::kComputes : schema->role;
}

const Trait& trait_of(const Node& node) {
  static const Trait none;
  const OperatorSchema* schema = known_operator(node.op);
  if (schema == nullptr) return none;
  return std::holds_alternative<Unary>(schema->trait) && !has_numbers_after_first(node) ? none
                                                                                        : schema->trait;
}

bool is_weighted_sum(const Node& node) { return trait<WeightedSum>(node) != nullptr; }

bool is_batch_norm(const Node& node) {
  const auto* norm = trait<Normalization>(node);
  return norm != nullptr && norm->over == Normalization::Over::kBatch;
}

bool is_view(const Node& node) {
  const auto* movement = trait<Movement>(node);
  return movement != nullptr && movement->is_view();
}

bool is_pooling(const Node& node, Pooling::Of of) {
  const auto* pooling = trait<Pooling>(node);
  return pooling != nullptr && pooling->of == of;
}

const Clamp* clamp_of(const Node& node) {
  const auto* unary = trait<Unary>(node);
  return unary != nullptr && unary->clamp ? &*unary->clamp : nullptr;
}

bool is_rectifier(const Node& node) {
  const Clamp* clamp = clamp_of(node);
  return clamp != nullptr && clamp->is_rectifier();
}

size_t channel_axis(const Node& node, size_t rank) {
  const auto* sum = trait<WeightedSum>(node);
  const auto* norm = trait<Normalization>(node);
  const auto* tables = trait<TableLayer>(node);
  const bool last = (sum != nullptr && sum->channel_axis == -1) ||
                    (tables != nullptr && tables->spatial_dims == 0) ||
                    (norm != nullptr && norm->over == Normalization::Over::kLastDims);
  return last ? rank - 1 : 1;
}

WeightChannels::WeightChannels(const Node& layer) : transposed_(weighted_sum_of(layer).transposed) {
  const Shape& weight = layer.find_parameter("weight")->tensor.shape();
  groups_ = layer.attributes.find("groups") == nullptr ? 1 : integer_attribute(layer, "groups");
  first_ = weight[0];
  second_ = weight[1];
  window_ = element_count({weight.begin() + 2, weight.end()});
  stride_ = window_ * second_;
}

}  // namespace detent
