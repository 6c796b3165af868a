#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "detent/formats/groups/grouping.h"

namespace detent {

/// The parameters of groups that take turns along a row, so that neighbours have different ones: those of
/// every lane side by side. Row k is the k-th of a group's `lanes()`, repeated over a whole number of
/// periods, and then once more the beginning, so that a vector can be loaded from anywhere in the period.
class LaneTable {
 public:
  /// Lanes of the largest vectors.
  static constexpr int64_t kMaxLanes = 64;

  LaneTable() = default;
  /// Empty unless groups take turns in short runs.
  template <class P>
  LaneTable(std::span<const P> groups, const Grouping& grouping) {
    if constexpr (requires(const P& group) { group.lanes(); }) {
      if (!grouping.takes_turns()) return;
      const int64_t row = grouping.length * grouping.inner;
      period_ = row * ((kMaxLanes + row - 1) / row);
      stride_ = static_cast<size_t>(period_ + kMaxLanes);
      values_.resize(groups[0].lanes().size() * stride_);
      for (size_t i = 0; i < stride_; ++i) {
        const auto lanes = groups[i / static_cast<size_t>(grouping.inner) % groups.size()].lanes();
        for (size_t k = 0; k < lanes.size(); ++k) values_[k * stride_ + i] = lanes[k];
      }
    }
  }

  bool empty() const { return values_.empty(); }
  int64_t period() const { return period_; }
  const float* row(size_t k) const { return values_.data() + k * stride_; }

 private:
  int64_t period_ = 0;
  size_t stride_ = 0;
  std::vector<float> values_;
};

/// The parameters of all groups of a tensor for kernels. Both must outlive it.
template <class P>
struct ElementGroups {
  std::span<const P> groups;
  const Grouping& grouping;
  LaneTable lanes = {};
};

/// Work on the elements [begin, end) of a tensor; pointers are to element `begin`, and may be equal. The
/// caller holds a DefaultFloatEnvironment.
template <class P>
struct ElementKernels {
  /// To the nearest value that the format holds. `stream` writes past the caches, which is for outputs larger
  /// than they are.
  void (*round)(const ElementGroups<P>&, const float* input, float* output, int64_t begin, int64_t end,
                bool stream);
  /// To the codes of these values. Elements are not NaN, unless the format has a NaN code.
  void (*encode)(const ElementGroups<P>&, const float* input, uint32_t* codes, int64_t begin, int64_t end);
  /// From any codes of the format's bits to values.
  void (*decode)(const ElementGroups<P>&, const uint32_t* codes, float* output, int64_t begin, int64_t end);
};

/// Outputs of this size use non-temporal stores, as memcpy does: reading their lines first would cost a third
/// of the memory traffic, and they would not stay cached.
constexpr size_t kStreamBytes = size_t{32} << 20;

/// Copies with non-temporal stores. Other threads may read `output` only after flush_stream on the writing
/// thread.
void stream_range(const float* values, float* output, int64_t count);
void flush_stream();

/// The index of the first NaN, else `count`.
int64_t first_nan(const float* values, int64_t count);

/// Name of the instruction set that the kernels run on: "AVX3", "SSE4", ...
const char* kernel_target();

}  // namespace detent
