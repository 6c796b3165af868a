#include "detent/passes/post_training/loop_bodies.h"

#include <utility>

#include "detent/graph/traits.h"

namespace detent {
namespace {

class BodyProgram final : public Program {
 public:
  BodyProgram(std::unique_ptr<const Program> network, std::string loop)
      : network_(std::move(network)), loop_(std::move(loop)) {}

  std::vector<Tensor> run(std::span<const Tensor> inputs, const Observation& observation) const override {
    auto around = Observation::of_none();
    around.in_bodies[loop_] = std::make_shared<const Observation>(observation);
    return network_->run(inputs, around);
  }

 private:
  std::unique_ptr<const Program> network_;
  std::string loop_;
};

}  // namespace

std::unique_ptr<const Program> BodyExecutor::compile(const Graph& body) const {
  Graph network = network_;
  network.node(loop_).body = std::make_shared<const Graph>(body);
  return std::make_unique<BodyProgram>(executor_.compile(network), loop_);
}

void within_body(const Graph& graph, const std::string& loop, const PassContext& context,
                 const std::function<void(PassContext& inside)>& use) {
  std::unique_ptr<BodyExecutor> executor;  // some bodies are never run
  PassContext inside = context;
  inside.body = {&context.sampled(graph), context.prefix() + loop + "."};
  inside.executor = [&]() -> Executor& {
    if (executor == nullptr) executor = std::make_unique<BodyExecutor>(context.executor(), graph, loop);
    return *executor;
  };
  use(inside);
}

void for_each_graph(const Graph& graph, const std::string& prefix,
                    const std::function<void(const Graph& each, const std::string& prefix)>& see) {
  see(graph, prefix);
  for (const Node& node : graph.nodes())
    if (node.body != nullptr) for_each_graph(*node.body, prefix + node.name + ".", see);
}

std::vector<std::string> layers_in_bodies(const Graph& graph) {
  std::vector<std::string> layers;
  for_each_graph(graph, "", [&](const Graph& each, const std::string& prefix) {
    for (const Node& node : each.nodes())
      if (!prefix.empty() && is_weighted_sum(node)) layers.push_back(prefix + node.name);
  });
  return layers;
}

}  // namespace detent
