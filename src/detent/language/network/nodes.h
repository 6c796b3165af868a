#pragma once

#include <limits>
#include <map>
#include <string>
#include <vector>

#include "detent/graph/builder.h"
#include "detent/language/language_config.h"
#include "detent/language/language_weights.h"

namespace detent {

/// Scores of keys that a query does not see.
inline constexpr double kMaskedScore = -static_cast<double>(std::numeric_limits<float>::max());

inline NodeInput number_input(double value) { return NodeInput::of_constant(Value(value)); }
inline NodeInput list_input(const std::vector<int64_t>& values) {
  return NodeInput::of_constant(Value(values));
}

/// The graph of a language model while it is built: nodes in the order of their execution, each with a name
/// of its own, and parameters from the source of weights. `target` is the name of the weights without
/// `.weight`.
class NetworkNodes {
 public:
  using Parameters = std::vector<std::pair<std::string, ParameterRef>>;

  /// Both outlive this.
  NetworkNodes(const LanguageConfig& config, WeightSource& weights)
      : config_(config), weights_(weights), graph_(config.family) {}

  const LanguageConfig& config() const { return config_; }
  Graph& graph() { return graph_; }

  /// A function; its second node is named `op_1`.
  NodeInput call(const std::string& op, std::vector<NodeInput> inputs, Table attributes = {});
  NodeInput named(const std::string& op, const std::string& target, std::vector<NodeInput> inputs,
                  Parameters parameters = {}, Table attributes = {});
  ParameterRef weight(const std::string& name, const Shape& shape);
  static ParameterRef ones(int64_t size);
  NodeInput constant_tensor(const std::string& target, Tensor tensor);
  /// A weight as a value.
  NodeInput weight_tensor(const std::string& target, const std::string& name, const Shape& shape);

  NodeInput linear(const std::string& target, NodeInput x, int64_t in, int64_t out, bool bias);
  /// Rows of an embedding.
  NodeInput table(const std::string& target, NodeInput indices, int64_t rows, int64_t size);
  /// Norm over the last dimension, of `size` elements.
  NodeInput norm(const std::string& target, NodeInput x, int64_t size) {
    return norm(target, std::move(x), size, config_.norm_eps);
  }
  NodeInput norm(const std::string& target, NodeInput x, int64_t size, double eps);
  NodeInput softmax(const std::string& target, NodeInput scores);
  /// cap tanh(x / cap).
  NodeInput capped(const NodeInput& x, double cap);
  /// One dimension of x, [1].
  NodeInput size_of(const NodeInput& x, int64_t dim);

 private:
  NodeInput add(Node node);

  const LanguageConfig& config_;
  WeightSource& weights_;
  Graph graph_;
  std::map<std::string, int> uses_;
};

}  // namespace detent
