#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/graph/graph.h"

namespace detent {

/// A built-in network.
struct ModelInfo {
  std::string name;
  std::vector<std::string> aliases;
  std::string help;
  /// The samples (without batch) and classes it was designed for; others may fit too.
  Shape sample_shape;
  int64_t class_count = 0;
  /// Builds it for samples of `sample_shape` (without batch) and `class_count` classes. Parameters are zeros
  /// until autograd/initialize.h fills them. Throws Error when the network does not fit the samples.
  std::function<Graph(const Shape& sample_shape, int64_t class_count)> build;
};

/// In the order of models/registry.cc.
std::span<const ModelInfo> all_models();
std::vector<std::string> model_names();
/// Throws Error with the nearest known name.
const ModelInfo& find_model(std::string_view name);
Graph build_model(std::string_view name, const Shape& sample_shape, int64_t class_count);

constexpr int kTrainedDigits = 5;

/// digits_cnn, trained for 12 epochs on four fifths of the digits (datasets/datasets.h): all but those whose
/// number modulo 5 is `number`. 0 <= number < kTrainedDigits. Embedded from data/trained_digits.f32, which
/// data/README.md says how to make anew.
Graph trained_digits_cnn(int number);

/// One network of that file: parameters and running statistics in float32, in the order of the
/// state_dict.
std::vector<std::byte> trained_digits_bytes(const Graph& graph);

}  // namespace detent
