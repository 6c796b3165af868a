#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "detent/engine/kernels/kernel_set.h"
#include "detent/engine/place.h"
#include "detent/graph/graph.h"
#include "detent/inference/node_form.h"

namespace detent {

/// The fastest packing for weights from `least` to `most` of a layer.
WeightPacking fastest_packing(int32_t least, int32_t most, int64_t outputs, int64_t inputs);

/// Weights of packing_shape(packing).steps steps of `count` bytes each, into as many vectors as they take.
void narrow(WeightPacking packing, const int8_t* weights, int64_t count, int8_t* packed);
/// The weight of one step, at `position` of `count`.
int32_t widened(WeightPacking packing, const int8_t* packed, int64_t count, int step, int64_t position);

/// Bytes on the boundary of a cache line.
template <class T>
class AlignedArray {
 public:
  AlignedArray() = default;
  explicit AlignedArray(size_t size) : tensor_(DType::kUInt8, shape_of(size)) {}
  /// For all of whose elements are written.
  static AlignedArray unfilled(size_t size) {
    AlignedArray array;
    array.tensor_ = unfilled_tensor(DType::kUInt8, shape_of(size));
    return array;
  }
  T* data() { return reinterpret_cast<T*>(tensor_.bytes().data()); }
  const T* data() const { return reinterpret_cast<const T*>(tensor_.bytes().data()); }
  size_t byte_size() const { return tensor_.byte_size(); }

 private:
  static Shape shape_of(size_t size) { return {static_cast<int64_t>(size * sizeof(T))}; }

  Tensor tensor_;
};

/// A position of a window, and the channel in it where a run begins.
struct RunStart {
  int64_t z = 0;
  int64_t y = 0;
  int64_t x = 0;
  int64_t channel = 0;
};

/// The window of a layer over up to three dimensions; a linear layer has a window of one position.
struct WindowShape {
  int64_t depth = 1, height = 1, width = 1;
  int64_t stride_z = 1, stride_y = 1, stride_x = 1;
  int64_t padding_z = 0, padding_y = 0, padding_x = 0;  // below 0: windows begin after the first position
  int64_t dilation_z = 1, dilation_y = 1, dilation_x = 1;

  int64_t positions() const { return depth * height * width; }
  /// Border that an input needs for so many results.
  Halo halo(const Place& input, int64_t planes, int64_t rows, int64_t columns) const;
  Halo halo(const Place& input, const Place& result) const {
    return halo(input, result.depth(), result.height(), result.width());
  }
};
WindowShape window_shape(const Node& node);
/// That of a node whose weight, of that shape, is an input.
WindowShape window_shape(const Node& node, const Shape& weight);
/// Whether the node has the input.
bool is_given(const Node& node, size_t input);

/// Outputs whose weights are packed together.
struct PackedGroup {
  int64_t blocks;
  int64_t first_output;
  int64_t outputs;
  size_t weights;         // offset
  size_t sums;            // of `start` and the multipliers
  size_t runs;            // index of the first of run_count
  bool is_empty = false;  // no weight but 0
};

/// The weights and biases of a layer in the order in which kernels read them.
struct PackedSums {
  const KernelSet* kernels;
  WindowShape window;
  std::optional<CodeType> wide_input = {};  // of more than 8 bits
  bool depthwise = false;
  bool whole_rows = false;  // depthwise: windows side by side take one call
  int64_t outputs = 0;
  std::vector<RunStart> runs;  // of each group run_count; depthwise: of the taps of a window's row
  int64_t run_count = 0;
  int64_t run_steps = 0;
  WeightPacking packing = WeightPacking::kBytes;
  std::vector<PackedGroup> groups;
  int64_t chunks = 0;  // depthwise
  AlignedArray<int8_t> weights;
  std::vector<int32_t> start;
  std::vector<float> multiplier;
  std::vector<FixedMultiplier> fixed;
  SumFinish finish;  // without pointers
  /// Parts of weights beyond a byte, in the same groups: sums are those of all together. Depthwise layers
  /// have them as further taps.
  std::vector<PackedSums> rest = {};

  SumFinish finish_at(size_t sum) const;
  int64_t weight_bytes() const;
};

/// Why the kernels cannot compute a layer; "" if they can.
std::string why_not_packed(const SumForm& form, const Node& node);
/// A plain layer, not transposed.
PackedSums packed_sums(const SumForm& form, const Node& node, const KernelSet& kernels);

/// Weights [output, input of a group, position of the window].
struct WindowLayer {
  WindowShape window;
  int64_t groups = 1;
  bool is_linear = false;
  bool is_phase = false;  // its results lie between those of others
};
PackedSums packed_windows(const SumForm& form, const WindowLayer& layer, const KernelSet& kernels);

/// The packed weights, as SumForm has them.
Tensor unpacked_weights(const PackedSums& packed, const Shape& shape);

/// The steps that codes of a type may be from its zero point, and where they begin as bytes.
SumFinish finish_for(const CodeType& type);

}  // namespace detent
