#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "detent/core/tensor.h"

namespace detent {

/// Scales of a weight [out, in]: each of `group` inputs of an output, in the order of the weights. It may be
/// that all outputs share one. With minimums, as many, weights are codes * scale + minimum, rounded twice.
/// Codes are integers, or float8_e4m3fn, or indices in a table of 16 numbers.
struct WeightScales {
  std::vector<float> scales = {};
  int64_t group = 0;
  std::vector<float> minimums = {};
  bool are_float8 = false;
  std::vector<float> table = {};  // empty: none
  /// Group of each input, where those of a group are no neighbours (`group` counts for nothing then): codes
  /// are integers without minimums.
  std::vector<int32_t> group_of = {};
};

/// linear_sums by weights that are packed once: the same bits. Each output is one chain of additions, so a
/// row is computed in as many chains as registers hold. Weights that bfloat16 holds, all of them, are kept in
/// it, and those that are codes of 8 or 4 bits times the scales, plus the minimums, as codes: a few rows take
/// the time in which weights are read.
class PackedLinear {
 public:
  /// weight [out, in], bias [out].
  PackedLinear(const Tensor& weight, const std::optional<Tensor>& bias, const WeightScales& scales = {});

  int64_t depth() const { return depth_; }
  /// Stride of result rows: `out`, padded for vectors.
  int64_t stride() const { return stride_; }
  int64_t byte_size() const {
    return static_cast<int64_t>(weights_.byte_size() + bias_.byte_size() + scales_.byte_size() +
                                minimums_.byte_size());
  }
  /// inputs [rows, in], results [rows, stride()]. Who multiplies by the same weights again and again lets
  /// every other product read them backwards, beginning with those that are still in the cache.
  void sums(const float* inputs, int64_t rows, float* results, bool backwards = false) const;
  /// The same for inputs that are all 0.
  void sums_of_zeros(int64_t rows, float* results) const;

 private:
  int64_t panels() const;
  int64_t panel_width(int64_t panel) const;
  template <class Word>
  void pack(const Tensor& weight);
  /// Whether all weights are kept as codes.
  bool pack_codes(const Tensor& weight, const WeightScales& scales);
  Tensor packed_groups(const std::vector<float>& numbers, int64_t outputs) const;
  void panel_sums(int64_t panel, const float* inputs, int64_t rows, float* results) const;

  int64_t depth_;
  int64_t stride_;
  bool is_finite_ = true;
  Tensor weights_;  // panels of outputs, of each [in, outputs]; float32, bfloat16 or int8 codes
  Tensor scales_;   // of codes: panels of outputs, of each [in / group_, outputs]
  Tensor minimums_ = Tensor(DType::kFloat32, {0});  // likewise; empty where there are none
  int64_t group_ = 0;
  bool are_nibbles_ = false;  // eight inputs share a word
  bool are_float8_ = false;
  std::vector<float> table_ = {};
  std::vector<int32_t> group_of_ = {};
  int64_t groups_ = 1;  // of an output
  Tensor bias_;         // -0 where there is none: that changes no sum
};

/// Work of one kernel call of PackedLinear: outputs whose weights lie together, for some rows.
struct PanelSums {
  const float* inputs;   // [rows, depth]
  const float* weights;  // [depth, width]; null where there is one of the others instead
  const float* bias;     // [width]
  float* results;
  int64_t rows;
  int64_t depth;
  int64_t width;                     // a multiple of sixteen
  int64_t stride;                    // between rows of results
  const uint16_t* halves = nullptr;  // the upper halves of weights whose lower halves are 0
  /// Weights are codes times scales [depth / group, width], of inputs that follow each other. Of four bits,
  /// eight inputs share a word [(depth + 7) / 8, width], the first in its low bits; groups begin with one.
  const int8_t* codes = nullptr;
  const float* scales = nullptr;
  const float* minimums = nullptr;  // as scales; null where none are added
  int64_t group = 0;
  bool are_nibbles = false;
  bool are_float8 = false;            // codes; scales are 256 times theirs
  const float* table = nullptr;       // of 16 numbers, whose indices codes of four bits are
  const int32_t* group_of = nullptr;  // of each input, where groups are not of neighbours
};

}  // namespace detent
