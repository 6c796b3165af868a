#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/core/value.h"
#include "detent/datasets/dataset.h"
#include "detent/evaluation/metrics.h"
#include "detent/graph/graph.h"
#include "detent/passes/analysis/accumulator_overflows.h"
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

/// Results of `detent quantize`.
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

/// Overflows in the accumulators of a network on the first samples of a data set.
struct AccumulatorReport {
  std::vector<AccumulatedLayer> layers;  // none where no layer has one
  int64_t samples = 0;
};

AccumulatorReport accumulator_report(const Graph& graph, const Dataset& dataset);

/// The inputs of the first samples: at most `count`, and no more than take so many products; those of one
/// batch where the network fixes that.
std::vector<Tensor> first_inputs(const Graph& graph, const Dataset& dataset, int64_t count,
                                 double most_products);

struct IntegerCheckOptions {
  bool shows_progress = true;
  bool names_slow_steps = true;
};

struct CheckedIntegers {
  std::string text;             // how many samples and tensors agree, or why integers are not possible
  std::string slow_steps = {};  // what of the network the engine has no fast kernel for
};

/// The promise that simulation is execution, kept on some samples of the user's own; and what of it is slow.
CheckedIntegers check_integers(const Graph& graph, const Dataset& dataset,
                               const IntegerCheckOptions& options);

}  // namespace detent
