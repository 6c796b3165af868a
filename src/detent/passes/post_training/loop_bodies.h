#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "detent/graph/executor.h"
#include "detent/graph/graph.h"
#include "detent/passes/pass.h"

namespace detent {

/// Runs a network in place of the body of one of its loops: from the network's inputs to its outputs, while
/// what an observation names is the body's, in every iteration.
class BodyExecutor final : public Executor {
 public:
  /// `executor` runs the network.
  BodyExecutor(const Executor& executor, const Graph& network, std::string loop)
      : executor_(executor), network_(network), loop_(std::move(loop)) {}

  std::unique_ptr<const Program> compile(const Graph& body) const override;

 private:
  const Executor& executor_;
  const Graph& network_;
  std::string loop_;
};

/// Calls `use` with the context of passes over the body of a loop of `graph`, whose context is `context`.
void within_body(const Graph& graph, const std::string& loop, const PassContext& context,
                 const std::function<void(PassContext& inside)>& use);

/// Calls `see` with the graph and the bodies of its loops, each with what stands before the names of its
/// nodes; `prefix` before those of the graph.
void for_each_graph(const Graph& graph, const std::string& prefix,
                    const std::function<void(const Graph& each, const std::string& prefix)>& see);

/// Names of the layers in the bodies of loops.
std::vector<std::string> layers_in_bodies(const Graph& graph);

}  // namespace detent
