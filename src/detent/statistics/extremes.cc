#include "detent/statistics/extremes.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "detent/statistics/scan.h"

namespace detent {

FiniteChunk Extremes::add(std::span<const float> chunk, ChunkBuffer& buffer) {
  return add(chunk, buffer, false);
}

void Extremes::add_alone(std::span<const float> chunk, ChunkBuffer& buffer) { add(chunk, buffer, true); }

FiniteChunk Extremes::add(std::span<const float> chunk, ChunkBuffer& buffer, bool alone) {
  constexpr uint32_t kInfinityBits = 0x7F800000U;
  count_ += static_cast<int64_t>(chunk.size());
  // Where there were zeros, there are likely more: no need to look for them first.
  bool copy = zeros_ > 0 && !alone;
  ValueScan scan;
  if (!copy) {
    scan = scan_values(chunk);
    copy = scan.max_magnitude >= kInfinityBits || (scan.min_magnitude == 0 && !alone);
  }
  bool zero = scan.min_magnitude == 0;
  if (copy) {
    const auto [kinds, scan_of_copy] = copy_finite(chunk, buffer.data());
    zeros_ += static_cast<int64_t>(kinds.zeros);
    nan_ += static_cast<int64_t>(kinds.nan);
    positive_infinities_ += static_cast<int64_t>(kinds.positive_infinities);
    negative_infinities_ += static_cast<int64_t>(kinds.negative_infinities);
    zero = kinds.zeros > 0;
    chunk = std::span<const float>(buffer).first(kinds.finite);
    scan = scan_of_copy;
  } else if (zero) {
    zeros_ += static_cast<int64_t>(count_zeros(chunk));
  }
  if (zero) {
    least_ = std::min(least_, 0.0F);
    greatest_ = std::max(greatest_, 0.0F);
    least_magnitude_ = 0;
  }
  if (chunk.empty()) return {};
  // Adding 0 makes -0 a 0: which of the two is the smallest would depend on the order of the values.
  least_ = std::min(least_, scan.min + 0.0F);
  greatest_ = std::max(greatest_, scan.max + 0.0F);
  least_magnitude_ = std::min(least_magnitude_, std::bit_cast<float>(scan.min_magnitude));
  return {chunk, scan.min_magnitude, scan.max_magnitude};
}

void Extremes::merge(const Extremes& other) {
  count_ += other.count_;
  nan_ += other.nan_;
  zeros_ += other.zeros_;
  positive_infinities_ += other.positive_infinities_;
  negative_infinities_ += other.negative_infinities_;
  least_ = std::min(least_, other.least_);
  greatest_ = std::max(greatest_, other.greatest_);
  least_magnitude_ = std::min(least_magnitude_, other.least_magnitude_);
}

float Extremes::finite_max_magnitude() const {
  return finite() == 0 ? 0 : std::max(std::fabs(least_), std::fabs(greatest_));
}

float Extremes::min() const {
  if (negative_infinities_ > 0) return -kInfinity;
  return finite() > 0 ? finite_min() : kInfinity;
}
float Extremes::max() const {
  if (positive_infinities_ > 0) return kInfinity;
  return finite() > 0 ? finite_max() : -kInfinity;
}
float Extremes::min_magnitude() const { return finite() > 0 ? finite_min_magnitude() : kInfinity; }
float Extremes::max_magnitude() const { return infinities() > 0 ? kInfinity : finite_max_magnitude(); }

void Extremes::write(StateWriter& writer) const {
  for (const int64_t n : {count_, nan_, zeros_, positive_infinities_, negative_infinities_}) writer.count(n);
  for (const float value : {least_, greatest_, least_magnitude_}) writer.real(value);
}

void Extremes::read(StateReader& reader) {
  for (int64_t* n : {&count_, &nan_, &zeros_, &positive_infinities_, &negative_infinities_})
    *n = reader.count();
  for (float* value : {&least_, &greatest_, &least_magnitude_}) *value = reader.real();
  // Each below 2^56, so these differences cannot overflow.
  if (count_ - nan_ - positive_infinities_ - negative_infinities_ - zeros_ < 0)
    bad_state("the counts of values disagree");
  const bool empty = least_ == kInfinity && greatest_ == -kInfinity && least_magnitude_ == kInfinity;
  const bool ordered = std::isfinite(least_) && std::isfinite(greatest_) && least_ <= greatest_ &&
                       least_magnitude_ >= 0 &&
                       least_magnitude_ <= std::max(std::fabs(least_), std::fabs(greatest_));
  if (!(finite() == 0 ? empty : ordered)) bad_state("the extremes disagree");
}

}  // namespace detent
