#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/formats/blocks/block_layout.h"
#include "detent/formats/format.h"
#include "detent/formats/quant_spec.h"

namespace detent {

/// Rounds elements of a block format one at a time, with scales fixed before all elements of a block are
/// known: for algorithms that choose later elements by earlier ones. The element that was largest when the
/// scale was fixed is rounded by `kept`; fake_quantize() then reproduces scale and elements.
class BlockRounding {
 public:
  /// With the parameters that `spec` gives the whole of `tensor` (float32, not empty), whose elements it
  /// rounds. Throws Error, beginning with `where`, on what is no block format, on blocks that reach over
  /// several rows (indices of dimension 0), and where no value keeps a scale (block_fp of 2 bits).
  BlockRounding(const QuantSpec& spec, const Tensor& tensor, const std::string& where);

  /// The spec for the rounded values, as ValueGrid's: a tensor scale is given.
  const QuantSpec& spec() const { return spec_; }

  /// For each element of a row, the number of its block in the row.
  std::span<const int64_t> blocks() const { return blocks_; }
  int64_t block_count() const { return block_count_; }

  /// The largest value of a block whose largest finite magnitude is `max`, which stands for its scale; 0 for
  /// max = 0.
  float largest(float max) const;
  /// The value nearest to `x` in a block with that largest value; saturates. 0 is unsigned.
  float rounded(float x, float largest) const;
  /// The same, but not nearer to 0 than a block with this scale must have one value. Throws Error, beginning
  /// with `where`, where no value of the format keeps the scale.
  float kept(float x, float largest, const std::string& where) const;

 private:
  /// `x` in a block with another element `other`.
  float beside(float x, float other) const;
  bool keeps(float value, float largest) const;
  void check_keeps(float largest, const std::string& where) const;

  QuantSpec spec_;
  GroupParameters parameters_;
  BlockLayout pair_;
  /// Whether a value stays what it is in a block whose largest it is: powers of two do, but not the upper
  /// values of binades that are cut at the format's largest.
  bool holds_its_values_;
  std::vector<int64_t> blocks_;
  int64_t block_count_ = 0;
};

/// A block format with a scale for the whole tensor: value = tensor scale * scale of the block * element, but
/// for the roundings of these products.
struct TensorScaledBlocks {
  float tensor_scale = 1;
  std::vector<float> scales;  // of the blocks, in the order in which the format stores them
  Tensor elements;            // float32, of the tensor's shape
};

/// nullopt for other formats. Throws Error as encode() does.
std::optional<TensorScaledBlocks> tensor_scaled_blocks(const QuantSpec& spec, const Tensor& values);

}  // namespace detent
