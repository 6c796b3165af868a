#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "detent/core/fields.h"
#include "detent/core/value.h"
#include "detent/datasets/dataset.h"
#include "detent/graph/graph.h"
#include "detent/passes/pass.h"
#include "detent/search/comparison.h"
#include "detent/workflows/random_source.h"

namespace detent {

/// Samples to calibrate on and to judge networks by; both may be the same.
struct ComparedSamples {
  const Dataset& calibration;
  const Dataset& test;
};

struct NetworkComparison {
  ComparisonOptions options;
  Table quantization;  // options of static_quantize that all rows share
  int64_t seed = 0;
  std::filesystem::path journal = {};
  bool resumes = false;
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  std::string where = {};  // begins messages of options
};

/// Options of static_quantize that all rows share.
std::vector<FieldDescription> comparison_quantization_options();

/// Throws Error where networks of these samples cannot be compared.
void check_compared_samples(const ComparedSamples& samples);
/// The network as it is compared. Throws Error, beginning with `file`, where it is quantized.
Graph network_to_compare(const Graph& network, const Dataset& calibration, const std::string& file);
/// How many samples networks are judged by.
int64_t judged_count(const ComparisonOptions& options, const Dataset& test);

/// Settings that a resumed comparison must share with the one that stopped: formats and methods may be more.
Table comparison_settings(const NetworkComparison& comparison, const Graph& network,
                          const ComparedSamples& samples);

/// Compares formats of the network, with the orders of samples that `detent quantize` draws.
ComparisonReport compare_network(Graph network, const ComparedSamples& samples,
                                 const NetworkComparison& comparison, const RandomSource& random,
                                 PassContext& context);

/// The points of the results' key "pareto".
Table compared_front(const ComparisonReport& report);

}  // namespace detent
