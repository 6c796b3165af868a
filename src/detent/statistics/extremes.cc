#include "detent/statistics/extremes.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "detent/statistics/scan.h"

namespace detent {

void Extremes::add_zeros(size_t zeros) {
  if (zeros == 0) return;
  zeros_ += static_cast<int64_t>(zeros);
  least_ = std::min(least_, 0.0F);
  greatest_ = std::max(greatest_, 0.0F);
  least_magnitude_ = 0;
}

void Extremes::add_finite(const Magnitudes& positive, const Magnitudes& negative) {
  if (!positive.empty()) {
    least_ = std::min(least_, std::bit_cast<float>(positive.least));
    greatest_ = std::max(greatest_, std::bit_cast<float>(positive.most));
    least_magnitude_ = std::min(least_magnitude_, std::bit_cast<float>(positive.least));
  }
  if (!negative.empty()) {
    least_ = std::min(least_, -std::bit_cast<float>(negative.most));
    greatest_ = std::max(greatest_, -std::bit_cast<float>(negative.least));
    least_magnitude_ = std::min(least_magnitude_, std::bit_cast<float>(negative.least));
  }
}

int64_t Extremes::add(std::span<const float> chunk, SignBuffers& buffers) {
  const SplitValues split = split_values(chunk, buffers.positive.end(), buffers.negative.end());
  const ValueKinds& kinds = split.kinds;
  buffers.positive.append(kinds.positive, split.positive);
  buffers.negative.append(kinds.negative, split.negative);
  count_ += static_cast<int64_t>(chunk.size());
  nan_ += static_cast<int64_t>(kinds.nan);
  positive_infinities_ += static_cast<int64_t>(kinds.positive_infinities);
  negative_infinities_ += static_cast<int64_t>(kinds.negative_infinities);
  add_zeros(kinds.zeros);
  add_finite(split.positive, split.negative);
  return static_cast<int64_t>(kinds.negative);
}

int64_t Extremes::add_alone(std::span<const float> chunk, SignBuffers& buffers) {
  constexpr uint32_t kInfinityBits = 0x7F800000U;
  const ValueScan scan = scan_values(chunk);
  if (std::max(scan.positive.most, scan.negative.most) >= kInfinityBits) {
    const int64_t negatives = add(chunk, buffers);
    buffers.positive.clear();
    buffers.negative.clear();
    return negatives;
  }
  count_ += static_cast<int64_t>(chunk.size());
  add_zeros(scan.zeros);
  add_finite(scan.positive, scan.negative);
  return static_cast<int64_t>(chunk.size() - scan.zeros - scan.positive_count);
}

Extremes Extremes::post_relu(int64_t negatives) const {
  Extremes result = *this;
  result.negative_infinities_ = 0;
  result.zeros_ += negatives + negative_infinities_;
  if (result.zeros_ > 0) {
    result.least_ = 0;
    result.greatest_ = std::max(greatest_, 0.0F);
    result.least_magnitude_ = 0;
  }
  return result;
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
