#include <algorithm>
#include <bit>

#include <fmt/ranges.h>

#include "detent/core/error.h"
#include "detent/core/text_table.h"
#include "detent/passes/passes.h"
#include "detent/passes/post_training/rotation.h"
#include "detent/passes/transform/graph_edits.h"

// Block Hadamard rotations (QuaRot; Ashkboos et al. 2024, arXiv:2404.00456; a rotation a block of a format's
// as in Egiazarian et al. 2025, arXiv:2509.23202), which spread an outlier over all elements of its block:
//
//     x -> linear layers (W)     becomes     x -> H a block -> linear layers (W H)
//
// with H = H^T = H^-1. Where x is what a linear layer gives, its blocks moved or added up with factors (the
// values of an attention), and nothing else reads it, that layer takes up H instead. The network computes the
// same. What reads the rotated value is quantized after it; the rotation itself computes in float.

namespace detent {
namespace {

struct HadamardPassOptions {
  int64_t block_size = 32;
  std::vector<std::string> nodes;
  bool check_outputs = true;
  double tolerance = 1e-4;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit(
        "block_size", self.block_size,
        "inputs that are rotated together, a power of two; `detent quantize` takes those that share a scale",
        Between{2, 1 << 16});
    visit("nodes", self.nodes, "layers whose inputs to rotate; empty: all possible ones");
    visit("check", self.check_outputs, "compare the outputs on calibration samples before and after");
    visit("tolerance", self.tolerance, "largest difference allowed, relative to the largest output",
          Between{0, 1});
  }
  void check(const std::string& where) const {
    if (std::has_single_bit(static_cast<uint64_t>(block_size))) return;
    fail("{}: key \"block_size\": got {}, expected a power of two", where, block_size);
  }
  void check_graph(const Graph& graph, const EarlierPasses& /*earlier*/, const std::string& where) const {
    for (const std::string& name : nodes) {
      if (graph.find(name) != nullptr) continue;
      fail("{}: key \"nodes\": {}", where, unknown_name_message("node", name, graph.node_names()));
    }
  }
};

/// Rotations that the options ask for. A node that is named but has none is an error.
std::vector<Rotation> chosen_rotations(const Graph& graph, const HadamardPassOptions& options,
                                       const PassContext& context) {
  Rotations all = find_rotations(graph, options.block_size);
  if (options.nodes.empty()) {
    for (const std::string& obstacle : all.obstacles) context.report(fmt::format("hadamard: {}\n", obstacle));
    if (all.found.empty()) fail("{}: no layer's input can be rotated (reasons above)", context.where);
    return std::move(all.found);
  }
  const auto is_sink = [](const std::string& name) {
    return [&](const Rotation& rotation) {
      return std::ranges::find(rotation.sinks, name) != rotation.sinks.end();
    };
  };
  for (const std::string& name : options.nodes) {
    if (std::ranges::any_of(all.found, is_sink(name))) continue;
    const auto why = std::ranges::find_if(
        all.obstacles, [&](const std::string& text) { return text.starts_with(name + ":"); });
    fail("{}: key \"nodes\": the input of {} cannot be rotated", context.where,
         why == all.obstacles.end() ? fmt::format("\"{}\", which is no linear layer,", name) : *why);
  }
  std::erase_if(all.found, [&](const Rotation& rotation) {
    return std::ranges::none_of(options.nodes,
                                [&](const std::string& name) { return is_sink(name)(rotation); });
  });
  return std::move(all.found);
}

void run_hadamard(Graph& graph, const HadamardPassOptions& options, PassContext& context) {
  const std::vector<Rotation> rotations = chosen_rotations(graph, options, context);
  Graph rotated = with_rotations(graph, rotations, options.block_size);
  if (options.check_outputs) check_same_outputs(graph, rotated, options.tolerance, context);
  graph = std::move(rotated);
  TextTable table({"input of", "blocks", "rotated by"});
  for (const Rotation& rotation : rotations) {
    table.add_row({fmt::format("{}", fmt::join(rotation.sinks, ", ")),
                   fmt::format("{}", rotation.features / options.block_size),
                   rotation.source.empty() ? "new nodes" : rotation.source});
  }
  context.report(table.to_text());
}

}  // namespace

PassInfo hadamard_pass() {
  return make_pass("hadamard", PassKind::kTransform,
                   "rotates inputs and weights of linear layers by blocks of a Hadamard matrix, which "
                   "spreads outliers; outputs stay equal",
                   run_hadamard, PassStage::kBeforeQuantizing);
}

}  // namespace detent
