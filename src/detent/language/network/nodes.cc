#include "detent/language/network/nodes.h"

#include <algorithm>

#include "detent/graph/operators.h"

namespace detent {
namespace {

std::string name_of_target(std::string target) {
  std::ranges::replace(target, '.', '_');
  return target;
}

}  // namespace

NodeInput NetworkNodes::add(Node node) {
  node.mase_type = find_operator(node.op).mase_type;
  NodeInput result = NodeInput::of(node.name);
  graph_.add(std::move(node));
  return result;
}

NodeInput NetworkNodes::call(const std::string& op, std::vector<NodeInput> inputs, Table attributes) {
  const int uses = uses_[op]++;
  return add({.name = uses == 0 ? op : fmt::format("{}_{}", op, uses),
              .op = op,
              .inputs = std::move(inputs),
              .attributes = std::move(attributes)});
}

NodeInput NetworkNodes::named(const std::string& op, const std::string& target, std::vector<NodeInput> inputs,
                              Parameters parameters, Table attributes) {
  return add({.name = name_of_target(target),
              .target = target,
              .op = op,
              .inputs = std::move(inputs),
              .attributes = std::move(attributes),
              .parameters = std::move(parameters)});
}

ParameterRef NetworkNodes::weight(const std::string& name, const Shape& shape) {
  return ParameterRef(Parameter{weights_.tensor(name, shape), true});
}

ParameterRef NetworkNodes::ones(int64_t size) {
  const std::vector<float> values(static_cast<size_t>(size), 1);
  return ParameterRef(Parameter{Tensor::from<float>({size}, values), false});
}

NodeInput NetworkNodes::constant_tensor(const std::string& target, Tensor tensor) {
  return named("get_attr", target, {}, {{"value", ParameterRef(Parameter{std::move(tensor), false})}});
}

NodeInput NetworkNodes::weight_tensor(const std::string& target, const std::string& name,
                                      const Shape& shape) {
  return named("get_attr", target, {}, {{"value", weight(name, shape)}});
}

NodeInput NetworkNodes::linear(const std::string& target, NodeInput x, int64_t in, int64_t out, bool bias) {
  Parameters parameters = {{"weight", weight(target + ".weight", {out, in})}};
  if (bias) parameters.emplace_back("bias", weight(target + ".bias", {out}));
  return named("linear", target, {std::move(x)}, std::move(parameters));
}

NodeInput NetworkNodes::table(const std::string& target, NodeInput indices, int64_t rows, int64_t size) {
  return named("embedding", target, {std::move(indices)},
               {{"weight", weight(target + ".weight", {rows, size})}});
}

NodeInput NetworkNodes::norm(const std::string& target, NodeInput x, int64_t size, double eps) {
  const bool is_centred = config_.norm == NormKind::kLayerNorm;
  Parameters parameters = {{"weight", config_.norm_weight ? weight(target + ".weight", {size}) : ones(size)}};
  if (is_centred && config_.norm_bias) parameters.emplace_back("bias", weight(target + ".bias", {size}));
  return named(is_centred ? "layer_norm" : "rms_norm", target, {std::move(x)}, std::move(parameters),
               {{"normalized_shape", size}, {"eps", eps}});
}

NodeInput NetworkNodes::softmax(const std::string& target, NodeInput scores) {
  return named("softmax", target, {std::move(scores)}, {}, {{"dim", -1}});
}

NodeInput NetworkNodes::capped(const NodeInput& x, double cap) {
  return call("mul", {call("tanh", {call("div", {x, number_input(cap)})}), number_input(cap)});
}

NodeInput NetworkNodes::size_of(const NodeInput& x, int64_t dim) {
  return call("shape_of", {x}, {{"start", dim}, {"end", dim + 1}});
}

}  // namespace detent
