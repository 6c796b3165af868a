#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/datasets/dataset.h"

namespace detent {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

/// First size in SampleInput::shape of an input that begins with an open size of its own, not the batch's.
inline constexpr int64_t kOwnFirstSize = -2;

/// Samples of one file.
struct Samples {
  std::vector<SampleInput> types;
  std::vector<Tensor> inputs;  // [n * rows, ...] each; [n] of numbers
  std::vector<int64_t> labels;
  /// How many of an input's first dimension are one sample, where not 1 of all: states of recurrent layers
  /// begin with the layers. 0: it is a number without dimensions.
  std::vector<int64_t> rows = {};

  std::vector<Shape> shapes() const {
    std::vector<Shape> shapes;
    for (const SampleInput& type : types) shapes.push_back(type.shape);
    return shapes;
  }
};

/// Samples without labels, file after file; their shapes may differ.
std::unique_ptr<Dataset> make_sample_dataset(std::vector<Samples> files, std::string source);

/// float32 of any numbers, int64 of all integers; others only of their own dtype. `where` is for errors.
Tensor as_input(const Tensor& tensor, DType wanted, const std::string& where);

/// Samples of a network whose inputs do not all begin with the batch, in the order of `wanted`:
/// [n, ...] of whole inputs, or these one after the other in the first dimension. A single number is the same
/// for all samples. Nothing where a row of each array is a sample.
std::optional<Samples> whole_samples(const NamedTensors& inputs, std::span<const SampleInput> wanted,
                                     const std::string& where);

}  // namespace detent
