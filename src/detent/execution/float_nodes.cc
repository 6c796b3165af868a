#include "detent/execution/float_nodes.h"

#include <optional>

#include "detent/core/parallel.h"
#include "detent/execution/interpreter.h"
#include "detent/execution/one_thread.h"
#include "detent/execution/torch_tensor.h"

namespace detent {
namespace {

Flow torch_flow(const FloatFlow& flow) {
  if (flow.is_absent) return std::monostate();
  if (const auto* integer = flow.number.get_if<int64_t>()) return *integer;
  if (const auto* real = flow.number.get_if<double>()) return *real;
  if (!flow.number.is_na()) return std::monostate();  // a list, which the node itself has
  return to_torch(flow.tensor);
}

FloatFlow float_flow(const Flow& flow) {
  if (const auto* tensor = std::get_if<at::Tensor>(&flow)) return {from_torch(*tensor)};
  if (const auto* integer = std::get_if<int64_t>(&flow)) return {{}, Value(*integer)};
  if (const auto* real = std::get_if<double>(&flow)) return {{}, Value(*real)};
  return {{}, {}, true};
}

class TorchFloatNodes final : public FloatNodes {
 public:
  explicit TorchFloatNodes(const Graph& graph) : interpreter_(graph) {}

  std::vector<FloatFlow> results(const Node& node, std::span<const FloatFlow> inputs) const override {
    std::optional<OneThread> one_thread;
    if (in_parallel_for()) one_thread.emplace();
    std::vector<Flow> flows;
    for (const FloatFlow& input : inputs) flows.push_back(torch_flow(input));
    std::vector<FloatFlow> results;
    for (const Flow& flow : interpreter_.results_of(node.name, std::move(flows)))
      results.push_back(float_flow(flow));
    return results;
  }

 private:
  const Interpreter interpreter_;
};

}  // namespace

std::unique_ptr<const FloatNodes> torch_float_nodes(const Graph& graph) {
  return std::make_unique<TorchFloatNodes>(graph);
}

}  // namespace detent
