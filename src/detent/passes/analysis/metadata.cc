#include "detent/graph/graph.h"
#include "detent/passes/passes.h"

// The preparations of MASE's pipelines. What they computed is derived from the graph when it is written
// (graph/mase_metadata.h), so that what is left to do is to begin without statistics, and to check.

namespace detent {
namespace {

void clear_statistics(Graph& graph, const NoOptions&, PassContext&) {
  for (Node& node : graph.nodes()) node.statistics = {};
}

void check_graph(Graph& graph, const NoOptions&, PassContext&) { verify(graph); }

}  // namespace

PassInfo init_metadata_pass() {
  return make_pass("init_metadata", PassKind::kAnalysis, "removes the statistics of every node",
                   clear_statistics);
}

PassInfo add_common_metadata_pass() {
  return make_pass("add_common_metadata", PassKind::kAnalysis,
                   "checks the graph; types, sizes and origins of operands are derived when they are written",
                   check_graph);
}

PassInfo add_software_metadata_pass() {
  return make_pass("add_software_metadata", PassKind::kAnalysis,
                   "removes the statistics of every node, so that each operand begins without",
                   clear_statistics);
}

PassInfo verify_common_metadata_pass() {
  return make_pass("verify_common_metadata", PassKind::kAnalysis,
                   "checks the graph that the common metadata are derived from", check_graph);
}

}  // namespace detent
