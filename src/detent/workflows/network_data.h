#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "detent/datasets/dataset.h"
#include "detent/graph/graph.h"
#include "detent/passes/pass.h"
#include "detent/search/judge.h"
#include "detent/workflows/random_source.h"

namespace detent {

/// Inputs of a network in its order, with the sizes that it usually takes.
std::vector<SampleInput> sample_inputs(const Graph& graph);

/// Throws Error where a network has no inputs, so that no samples are its own. `file` is what messages call
/// it.
void expect_inputs(const Graph& graph, const std::string& file);

/// Inputs at random, for networks whose weights alone are quantized: the data set "random".
std::unique_ptr<Dataset> random_samples(const Graph& graph);

/// A whole network brings its own input shapes and classes: they must be the data set's. Sizes that it leaves
/// open are usually those of the first samples. `file` is what messages call the network; where the data
/// `may_lack_classes`, the network may have more. Throws Error where they do not fit each other.
Graph fitted_to_data(const Graph& graph, const Dataset& dataset, const std::string& file,
                     bool may_lack_classes);

/// How many classes the data set has, and what to do where the network has others.
std::string classes_text(const Dataset& dataset);

/// The network as it is, or, where two samples of the data set together give other outputs than each alone,
/// with a first size that is no batch (fixed_samples is 1), which it says: exporters leave sizes open that a
/// network folds into others, or needs to be 1.
Graph without_batches_that_mix(const Graph& graph, const Dataset& dataset);

/// Context of pipelines: samples in an order that `random` draws when the first pass asks for them. Reports
/// are dropped unless the caller sets where they go; warnings go to the log. `dataset` and `executor` must
/// outlive the context.
PassContext calibration_context(const Dataset& dataset, const RandomSource& random, int64_t batch_size,
                                std::filesystem::path output_dir, Executor& executor);

/// Samples of `validation` in random order, and after them those of `training`, at most `count` in all. Both
/// may be the same set; they must outlive what is returned.
JudgedSamples judged_samples(const Dataset& validation, const Dataset& training, int64_t count,
                             const RandomSource& random);

}  // namespace detent
