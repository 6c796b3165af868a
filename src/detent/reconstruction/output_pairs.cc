#include "detent/reconstruction/output_pairs.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/core/random_numbers.h"
#include "detent/core/xxh64.h"
#include "detent/kernels/clamped_errors.h"

namespace detent {
namespace {

using Numbers = ClampedErrors::Lanes;

/// Newton's next shifts: means of clamp(wanted) - got where got + shift is not cut off, or the shift itself
/// where that is nowhere.
Numbers next_shifts(const ClampedErrors& sums, const Numbers& shifts) {
  Numbers next = shifts;
  for (size_t c = 0; c < next.size(); ++c) {
    if (sums.counts[c] != 0) next[c] = sums.differences[c] / sums.counts[c];
  }
  return next;
}

Numbers best_shifts(ClampedPairs pairs, const Clamp& clamp) {
  constexpr int kMostSteps = 16;
  const auto count = static_cast<size_t>(pairs.channels);
  const ClampedErrors unclamped = clamped_errors(pairs, Numbers{});
  const Numbers mean = next_shifts(unclamped, Numbers{});
  Numbers best{};
  Numbers least = unclamped.squares;  // errors at `best`
  pairs.low = clamp.low;
  pairs.high = clamp.high;
  bool is_first = true;
  for (const Numbers& start : {Numbers{}, mean}) {
    Numbers shifts = start;
    Numbers before;
    before.fill(std::numeric_limits<double>::infinity());
    std::array<bool, kErrorLanes> has_ended{};
    for (int step = 0; step < kMostSteps; ++step) {
      const ClampedErrors sums = clamped_errors(pairs, shifts);
      const Numbers& errors = sums.squares;
      const Numbers next = next_shifts(sums, shifts);
      if (std::exchange(is_first, false)) least = errors;
      for (size_t c = 0; c < count; ++c) {
        if (has_ended[c]) continue;
        if (errors[c] < least[c]) {
          least[c] = errors[c];
          best[c] = shifts[c];
        }
        has_ended[c] = !(errors[c] < before[c]);
        before[c] = errors[c];
        shifts[c] = next[c];
      }
      if (std::all_of(has_ended.begin(), has_ended.begin() + static_cast<int64_t>(count), std::identity()))
        break;
    }
  }
  return best;
}

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

std::vector<double> OutputPairs::shifts(const Clamp& clamp) const {
  std::vector<double> shifts(static_cast<size_t>(channels_));
  parallel_for((channels_ + kErrorLanes - 1) / kErrorLanes, 1, [&](int64_t begin, int64_t end) {
    for (int64_t first = begin * kErrorLanes; first < std::min(end * kErrorLanes, channels_);
         first += kErrorLanes) {
      const ClampedPairs pairs{.wanted = wanted_.data() + first,
                               .got = got_.data() + first,
                               .positions = positions(),
                               .stride = channels_,
                               .channels = std::min(kErrorLanes, channels_ - first)};
      const Numbers best = best_shifts(pairs, clamp);
      std::copy_n(best.begin(), pairs.channels, shifts.begin() + first);
    }
  });
  return shifts;
}

}  // namespace detent
