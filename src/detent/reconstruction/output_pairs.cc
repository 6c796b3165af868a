#include "detent/reconstruction/output_pairs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include "detent/core/error.h"
#include "detent/core/random_numbers.h"
#include "detent/core/xxh64.h"

namespace detent {
namespace {

double clamped(double value, const Clamp& clamp) { return std::min(std::max(value, clamp.low), clamp.high); }

}  // namespace

void OutputPairs::add(const Tensor& wanted, const Tensor& got, size_t channel_axis) {
  DETENT_CHECK(wanted.shape() == got.shape(), "{} and {}", shape_text(wanted.shape()),
               shape_text(got.shape()));
  const Shape& shape = wanted.shape();
  const auto axis = shape.begin() + static_cast<int64_t>(channel_axis);
  channels_ = *axis;
  const int64_t samples = channel_axis == 0 ? 1 : shape[0];
  if (samples == 0) return;
  const int64_t inner = element_count({axis + 1, shape.end()});
  const int64_t outer = element_count({shape.begin(), axis}) / samples;
  for (int64_t n = 0; n < samples; ++n) {
    const int64_t first = n * outer * channels_ * inner;
    add_sample(wanted.values<float>().data() + first, got.values<float>().data() + first, outer, inner);
  }
}

void OutputPairs::add_sample(const float* wanted, const float* got, int64_t outer, int64_t inner) {
  const auto size = static_cast<size_t>(outer * channels_ * inner);
  const uint64_t sample =
      xxh64(std::as_bytes(std::span(wanted, size)), xxh64(std::as_bytes(std::span(got, size))));
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < inner; ++i) {
      const uint64_t key = splitmix64(sample + kSplitmixStep * static_cast<uint64_t>(o * inner + i));
      if ((key & mask_) != 0) continue;
      keys_.push_back(key);
      for (int64_t c = 0; c < channels_; ++c) {
        wanted_.push_back(wanted[(o * channels_ + c) * inner + i]);
        got_.push_back(got[(o * channels_ + c) * inner + i]);
      }
      while (2 * std::ssize(wanted_) > most_numbers_ && positions() > 1) halve();
    }
  }
}

void OutputPairs::halve() {
  mask_ = 2 * mask_ + 1;
  size_t kept = 0;
  const auto channels = static_cast<size_t>(channels_);
  for (size_t p = 0; p < keys_.size(); ++p) {
    if ((keys_[p] & mask_) != 0) continue;
    keys_[kept] = keys_[p];
    std::copy_n(wanted_.begin() + static_cast<int64_t>(p * channels), channels,
                wanted_.begin() + static_cast<int64_t>(kept * channels));
    std::copy_n(got_.begin() + static_cast<int64_t>(p * channels), channels,
                got_.begin() + static_cast<int64_t>(kept * channels));
    ++kept;
  }
  keys_.resize(kept);
  wanted_.resize(kept * channels);
  got_.resize(kept * channels);
}

void OutputPairs::sort() {
  std::vector<size_t> order(keys_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // Positions of one key are of samples that are alike.
  std::ranges::sort(order, {}, [&](size_t p) { return keys_[p]; });
  const auto in_order = [&](const std::vector<float>& values) {
    std::vector<float> sorted;
    sorted.reserve(values.size());
    for (const size_t p : order) {
      const auto first = values.begin() + static_cast<int64_t>(p) * channels_;
      sorted.insert(sorted.end(), first, first + channels_);
    }
    return sorted;
  };
  wanted_ = in_order(wanted_);
  got_ = in_order(got_);
  std::ranges::sort(keys_);
}

double OutputPairs::error(int64_t channel, const Clamp& clamp, double shift) const {
  double sum = 0;
  for (auto at = static_cast<size_t>(channel); at < wanted_.size(); at += static_cast<size_t>(channels_)) {
    const double difference = clamped(static_cast<double>(wanted_[at]), clamp) -
                              clamped(static_cast<double>(got_[at]) + shift, clamp);
    sum += difference * difference;
  }
  return sum;
}

double OutputPairs::next(int64_t channel, const Clamp& clamp, double shift) const {
  double sum = 0;
  int64_t count = 0;
  for (auto at = static_cast<size_t>(channel); at < wanted_.size(); at += static_cast<size_t>(channels_)) {
    const double value = static_cast<double>(got_[at]) + shift;
    if (!(value > clamp.low && value < clamp.high)) continue;
    sum += clamped(static_cast<double>(wanted_[at]), clamp) - static_cast<double>(got_[at]);
    ++count;
  }
  return count == 0 ? shift : sum / static_cast<double>(count);
}

double OutputPairs::shift(int64_t channel, const Clamp& clamp) const {
  constexpr int kMostSteps = 16;
  const Clamp none;
  double best = 0;
  double least = error(channel, clamp, 0);
  for (const double start : {0.0, next(channel, none, 0)}) {
    double shift = start;
    double before = std::numeric_limits<double>::infinity();
    for (int step = 0; step < kMostSteps; ++step) {
      const double now = error(channel, clamp, shift);
      if (now < least) {
        least = now;
        best = shift;
      }
      if (!(now < before)) break;
      before = now;
      shift = next(channel, clamp, shift);
    }
  }
  return best;
}

}  // namespace detent
