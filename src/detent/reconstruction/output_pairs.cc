#include "detent/reconstruction/output_pairs.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <numeric>
#include <span>
#include <type_traits>
#include <utility>

#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/core/random_numbers.h"
#include "detent/core/xxh64.h"

namespace detent {
namespace {

double clamped(double value, const Clamp& clamp) { return std::min(std::max(value, clamp.low), clamp.high); }

/// Some neighbouring channels, which a pass over the positions reads at once. Each is added up in the order
/// of positions.
class ChannelSums {
 public:
  static constexpr size_t kChannels = 16;  // a line of the cache
  using Numbers = std::array<double, kChannels>;

  ChannelSums(std::span<const float> wanted, std::span<const float> got, size_t channels, size_t first,
              size_t count)
      : wanted_(wanted), got_(got), channels_(channels), first_(first), count_(count) {}

  /// Errors at these shifts, and Newton's next ones: means of clamp(wanted) - got where got + shift is not
  /// cut off, or the shift itself where that is nowhere.
  void step(const Clamp& clamp, const Numbers& shifts, Numbers& errors, Numbers& next) const {
    count_ == kChannels ? sum(clamp, shifts, errors, next, std::integral_constant<size_t, kChannels>())
                        : sum(clamp, shifts, errors, next, count_);
  }

 private:
  template <class Count>
  void sum(const Clamp& clamp, const Numbers& shifts, Numbers& errors, Numbers& next, Count count) const {
    Numbers squares{};
    Numbers sums{};
    Numbers counts{};
    for (size_t at = first_; at < wanted_.size(); at += channels_) {
      for (size_t c = 0; c < count; ++c) {
        const auto got = static_cast<double>(got_[at + c]);
        const double value = got + shifts[c];
        const double wanted = clamped(static_cast<double>(wanted_[at + c]), clamp);
        const double difference = wanted - clamped(value, clamp);
        squares[c] += difference * difference;
        const bool is_within = static_cast<int>(value > clamp.low) & static_cast<int>(value < clamp.high);
        sums[c] += is_within ? wanted - got : 0;
        counts[c] += is_within ? 1 : 0;
      }
    }
    errors = squares;
    for (size_t c = 0; c < count; ++c) next[c] = counts[c] == 0 ? shifts[c] : sums[c] / counts[c];
  }

  std::span<const float> wanted_;  // [positions, channels]
  std::span<const float> got_;
  size_t channels_;
  size_t first_;
  size_t count_;
};

ChannelSums::Numbers best_shifts(const ChannelSums& sums, size_t count, const Clamp& clamp) {
  constexpr int kMostSteps = 16;
  using Numbers = ChannelSums::Numbers;
  Numbers best{};
  Numbers least;  // errors at `best`
  Numbers mean;
  sums.step(Clamp(), Numbers{}, least, mean);
  bool is_first = true;
  for (const Numbers& start : {Numbers{}, mean}) {
    Numbers shifts = start;
    Numbers before;
    before.fill(std::numeric_limits<double>::infinity());
    std::array<bool, ChannelSums::kChannels> has_ended{};
    for (int step = 0; step < kMostSteps; ++step) {
      Numbers errors;
      Numbers next;
      sums.step(clamp, shifts, errors, next);
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
  constexpr auto kChannels = int64_t{ChannelSums::kChannels};
  parallel_for((channels_ + kChannels - 1) / kChannels, 1, [&](int64_t begin, int64_t end) {
    for (int64_t first = begin * kChannels; first < std::min(end * kChannels, channels_);
         first += kChannels) {
      const auto count = static_cast<size_t>(std::min(kChannels, channels_ - first));
      const ChannelSums sums(wanted_, got_, static_cast<size_t>(channels_), static_cast<size_t>(first),
                             count);
      const ChannelSums::Numbers best = best_shifts(sums, count, clamp);
      std::copy_n(best.begin(), count, shifts.begin() + first);
    }
  });
  return shifts;
}

}  // namespace detent
