#include "detent/passes/post_training/exact_values.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace detent {
namespace {

using Names = ExactValues::Names;

/// Sums over weights, or over another input: their results are approximate, whatever reads them.
bool sums_products(const Node& node) {
  return !node.parameters.empty() || !find_operator(node.op).reduction_dims.empty() ||
         trait<MatrixProduct>(node) != nullptr || trait<Softmax>(node) != nullptr;
}

bool is_root(const Node& node) {
  const auto* unary = trait<Unary>(node);
  return unary != nullptr && std::isnan(unary->function(node)(-1));
}

class ExactSearch {
 public:
  ExactSearch(const Graph& graph, const ValueTypes& types) : types_(types) {
    for (const Node& node : graph.nodes()) note_origin(node);
    for (size_t i = graph.nodes().size(); i-- > 0;) see(graph.nodes()[i]);
  }

  ExactValues take() { return std::move(found_); }

 private:
  void note_origin(const Node& node) {
    const auto is_among = [&](const Names& names) {
      return std::ranges::any_of(node.inputs, [&](const NodeInput& in) { return names.contains(in.node); });
    };
    const bool computes = role_of(node) == OperatorRole::kComputes;
    if (computes && (sums_products(node) || is_among(learned_))) learned_.insert(node.name);
    if (is_operation(node, PairOperation::kSub) || (passes_elements(node) && is_among(differences_)))
      differences_.insert(node.name);
  }

  void see(const Node& node) {
    note_reads(node);
    if (role_of(node) != OperatorRole::kComputes) return;
    const bool is_delicate = delicate_.contains(node.name) || found_.divisors.contains(node.name);
    const bool subtracts = is_operation(node, PairOperation::kSub) && is_delicate;
    if (subtracts) found_.results.insert(node.name);
    const bool passes_on = found_.results.contains(node.name) && makes_exact(node);
    if (subtracts || passes_on) found_.computed.insert(node.name);
    if (subtracts || passes_on || gives_exact(node)) add_inputs(node, found_.results);
    see_divisors(node);
  }

  void see_divisors(const Node& node) {
    if (is_operation(node, PairOperation::kDiv)) {
      add(node.inputs[1], found_.divisors);
      add(node.inputs[1], found_.bare);
      // A covariance over a variance: both may be near 0.
      if (differences_.contains(node.inputs[1].node)) add(node.inputs[0], delicate_);
    }
    if (has_pole(node)) {
      add(node.inputs[0], found_.divisors);
      add(node.inputs[0], found_.bare);
    }
    if (is_root(node)) add(node.inputs[0], delicate_);
    if (!passes_elements(node)) return;
    if (delicate_.contains(node.name)) add_inputs(node, delicate_);
    if (found_.divisors.contains(node.name)) add_inputs(node, found_.divisors);
    const bool is_moved = trait<Movement>(node) != nullptr || clamp_of(node) != nullptr;
    if (is_moved && found_.bare.contains(node.name)) add_inputs(node, found_.bare);
  }

  static bool is_operation(const Node& node, PairOperation operation) {
    const auto* own = trait<PairOperation>(node);
    return own != nullptr && *own == operation;
  }

  static bool passes_elements(const Node& node) {
    return is_view(node) || trait<Movement>(node) != nullptr || computes_by_element(node) ||
           find_operator(node.op).elementwise;
  }

  /// Whether the node makes integers of floats, which are read, or compares what no layer has computed or
  /// what integers are made of.
  bool gives_exact(const Node& node) const {
    for (size_t i = 0; i < result_count(node); ++i) {
      const std::string value = value_name(node.name, i);
      const Operand& result = types_.at(value);
      if (result.dtype == DType::kFloat32 || !result.is_tensor() || result.elements) continue;
      const bool is_counted = !learned_.contains(node.name) || counted_.contains(value);
      if (result.dtype == DType::kBool ? is_counted : read_.contains(value)) return true;
    }
    return false;
  }

  void note_reads(const Node& node) {
    const auto result = types_.find(value_name(node.name));
    const DType dtype = result == types_.end() ? DType::kFloat32 : result->second.dtype;
    const bool counts = dtype == DType::kBool ? counted_.contains(node.name) : dtype != DType::kFloat32;
    for (const NodeInput& input : node.inputs) {
      if (input.is_constant() || input.is_absent()) continue;
      read_.insert(value_name(input));
      if (counts) counted_.insert(value_name(input));
    }
  }

  /// A sum of several results of layers is as inexact as they are.
  bool makes_exact(const Node& node) const {
    Names learned;
    for (const NodeInput& input : node.inputs)
      if (learned_.contains(input.node)) learned.insert(input.node);
    const auto* movement = trait<Movement>(node);
    const bool keeps = (movement != nullptr && movement->joins) || is_operation(node, PairOperation::kMul);
    return !sums_products(node) && (learned.size() <= 1 || keeps);
  }

  void add(const NodeInput& input, Names& names) const {
    if (input.is_constant() || input.is_absent()) return;
    const Operand& value = types_.at(value_name(input));
    if (value.is_tensor() && value.dtype == DType::kFloat32) names.insert(input.node);
  }

  void add_inputs(const Node& node, Names& names) const {
    for (const NodeInput& input : node.inputs) add(input, names);
  }

  const ValueTypes& types_;
  Names learned_;      // what layers have computed, and what follows from it
  Names differences_;  // and what is computed of them by element
  Names delicate_;     // roots and quotients follow from them by element
  Names read_;         // values that are read
  Names counted_;      // those that integers are made of
  ExactValues found_;
};

}  // namespace

bool has_pole(const Node& node) {
  const auto* unary = trait<Unary>(node);
  return unary != nullptr && !std::isfinite(unary->function(node)(0));
}

bool computes_by_element(const Node& node) {
  return trait<Unary>(node) != nullptr || trait<PairOperation>(node) != nullptr;
}

ExactValues exact_values(const Graph& graph, const ValueTypes& types) {
  return ExactSearch(graph, types).take();
}

}  // namespace detent
