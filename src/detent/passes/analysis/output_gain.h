#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/graph/executor.h"
#include "detent/graph/graph.h"
#include "detent/passes/analysis/variant_runs.h"
#include "detent/passes/calibration_set.h"

namespace detent {

/// `quantized` with the node at `position` as `reference`, the same network in float, has it: float weights,
/// and inputs that are not rounded where they are computed. Other readers of these round them for themselves.
Variant variant_with_float_node(const Graph& reference, const Graph& quantized, size_t position);

/// The output by which networks are compared: the first float tensor that is the first result of a node.
std::optional<size_t> measured_output(const Graph& graph);

/// Whether the output has a row of two or more numbers per sample, as of classes.
bool is_classifier(const Tensor& output);

/// Compared values of an output of floats, wherever an SQNR of outputs is told. Of a classifier: logits less
/// their mean over the classes, which is all that class probabilities depend on; logits, log-probabilities
/// and (of a softmax) probabilities give the same. Of other networks the values as they are.
std::vector<double> compared_values(const Graph& graph, size_t output, const Tensor& value);
/// The same as float32, of the output's shape.
Tensor compared_tensor(const Graph& graph, size_t output, const Tensor& value);

/// Sum over what is finite in `expected`; infinite where `actual` is NaN there.
double squared_distance(const std::vector<double>& expected, const std::vector<double>& actual);

/// Distance of compared values, in the memory of the outputs where each element is compared by itself.
double compared_distance(const Graph& graph, size_t output, const Tensor& expected, const Tensor& actual);
/// The same for zeros.
double compared_signal(const Graph& graph, size_t output, const Tensor& expected);

/// SQNR in dB of the compared values of the measured output; of none, where there is none.
struct OutputSqnr {
  int64_t samples = 0;
  std::string output;                   // what it is: "logits" of a classifier, or "outputs"
  double quantized = 0;                 // over these samples
  std::vector<double> with_float_node;  // with one node in float, as many as were tried

  /// Gain of node i in float, in dB; negative if its errors cancel others.
  double gain(size_t i) const;
};

/// A network in float and quantized, compiled by `executor`.
struct ComparedNetworks {
  const Graph& reference;
  const Graph& quantized;
  const Program& in_float;
  const Program& in_codes;
  const Executor& executor;
};

/// Over the first `samples` calibration samples, fewer where the runs would cost more than 1,024 samples
/// through the whole network do, or than some seconds of one core. Where even 8 samples cost more than
/// that, only the first of `nodes` are tried.
OutputSqnr measure_output_sqnr(const ComparedNetworks& networks, const std::vector<std::string>& nodes,
                               const CalibrationSet& data, int64_t samples);

}  // namespace detent
