#include "detent/execution/float_nodes.h"

#include <optional>

#include "detent/core/parallel.h"
#include "detent/execution/interpreter.h"
#include "detent/execution/one_thread.h"
#include "detent/execution/reproducible.h"

namespace detent {
namespace {

class TorchFloatNodes final : public FloatNodes {
 public:
  explicit TorchFloatNodes(const Graph& graph)
      : interpreter_(graph, Interpreter::Mode::kInference, /*in_order=*/true) {}

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
