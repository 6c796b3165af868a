#pragma once

#include <optional>
#include <string>

#include "detent/core/value.h"
#include "detent/datasets/dataset.h"
#include "detent/evaluation/metrics.h"
#include "detent/graph/graph.h"
#include "detent/passes/analysis/network_cost.h"
#include "detent/workflows/quantize_network.h"

namespace detent {

/// The key "network" of results: with histograms of what its quantized operands hold while it computes some
/// of the samples, in float, where `floats`, the network before it was quantized, is given.
Table reported_network(const Graph& graph, const Graph* floats, const Dataset& dataset);

/// A row of the key "accuracy".
Table accuracy_row(const char* network, const Metrics& metrics);

/// An entry of the key "sizes".
Table size_table(const StorageBits& bits);

/// What `detent quantize` finds.
struct QuantizeFindings {
  const char* name_before = "float";  // or "trained"
  StorageBits bits_before = {};
  StorageBits bits_after = {};
  std::optional<Metrics> before = {};  // none where the test samples have no labels
  std::optional<Metrics> after = {};
  const QuantizationAnalysis* analysis = nullptr;  // of a network that was not trained for it
  std::string integer_execution = {};
};

/// Its results as docs/results.md says.
Table quantize_results(const QuantizeFindings& findings);

}  // namespace detent
