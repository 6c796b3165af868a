#include "detent/formats/measure/distortion.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <mutex>
#include <utility>
#include <vector>

#include "detent/core/parallel.h"
#include "detent/formats/kernel_environment.h"
#include "detent/formats/quant_spec.h"

namespace detent {
namespace {

constexpr int64_t kErrorChunk = int64_t{1} << 16;
/// Elements whose chunks are summed before they are merged.
constexpr int64_t kRound = 1024 * kErrorChunk;

double share(int64_t part, int64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

/// Sets of values that threads take for a chunk and put back: no more than there are threads. Their union
/// does not depend on which chunk went into which.
class SetsOfThreads {
 public:
  explicit SetsOfThreads(const DistinctValues& first) : sets_{first} {}

  DistinctValues take() {
    const std::lock_guard lock(mutex_);
    if (sets_.empty()) return {};
    DistinctValues set = std::move(sets_.back());
    sets_.pop_back();
    return set;
  }
  void put_back(DistinctValues set) {
    const std::lock_guard lock(mutex_);
    sets_.push_back(std::move(set));
  }
  DistinctValues merged() {
    DistinctValues all = take();
    for (const DistinctValues& set : sets_) all.merge(set);
    return all;
  }

 private:
  std::mutex mutex_;
  std::vector<DistinctValues> sets_;
};

}  // namespace

double sqnr_db(double signal, double noise) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (noise == 0) return kInfinity;
  return signal == 0 ? -kInfinity : 10 * std::log10(signal / noise);
}

void Distortion::Sums::add_chunk(const float* original, const float* quantized, int64_t size,
                                 DistinctValues* distinct) {
  count += size;
  const auto add_each = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (!std::isfinite(original[i]) || !std::isfinite(quantized[i])) {
        ++nonfinite;
        overflowed += std::isfinite(original[i]) ? 1 : 0;
        continue;
      }
      const auto x = static_cast<double>(original[i]);
      const auto y = static_cast<double>(quantized[i]);
      signal += x * x;
      noise += (x - y) * (x - y);
      product += x * y;
      power += y * y;
      max_error = std::max(max_error, std::fabs(x - y));
      zeros += y == 0 ? 1 : 0;
      if (distinct != nullptr) distinct->insert(quantized[i]);
    }
  };
  DifferenceSums lanes;
  for (int64_t i = 0; i < size;) {
    const int64_t end = i + add_finite_blocks(original + i, quantized + i, size - i, lanes);
    for (; distinct != nullptr && i < end; ++i) distinct->insert(quantized[i]);
    i = std::min(end + kDifferenceBlock, size);
    add_each(end, i);
  }
  zeros += lanes.zeros;
  for (size_t lane = 0; lane < DifferenceSums::kLanes; ++lane) {
    signal += lanes.signal[lane];
    noise += lanes.noise[lane];
    product += lanes.product[lane];
    power += lanes.power[lane];
    max_error = std::max(max_error, lanes.largest[lane]);
  }
}

void Distortion::Sums::merge(const Sums& other) {
  count += other.count;
  nonfinite += other.nonfinite;
  overflowed += other.overflowed;
  zeros += other.zeros;
  signal += other.signal;
  noise += other.noise;
  product += other.product;
  power += other.power;
  max_error = std::max(max_error, other.max_error);
}

void Distortion::update(const Tensor& original, const Tensor& quantized) {
  if (original.shape() != quantized.shape() || original.dtype() != DType::kFloat32 ||
      quantized.dtype() != DType::kFloat32) {
    fail("error measures: got {} of shape {} and {} of shape {}, expected float32 of one shape",
         dtype_name(original.dtype()), shape_text(original.shape()), dtype_name(quantized.dtype()),
         shape_text(quantized.shape()));
  }
  const float* x = original.values<float>().data();
  const float* y = quantized.values<float>().data();
  SetsOfThreads sets(distinct_);
  std::vector<Sums> chunks;
  for (int64_t first = 0; first < original.numel(); first += kRound) {
    const int64_t size = std::min(kRound, original.numel() - first);
    chunks.assign(static_cast<size_t>((size + kErrorChunk - 1) / kErrorChunk), Sums());
    parallel_for(size, kErrorChunk, [&](int64_t begin, int64_t end) {
      const DefaultFloatEnvironment environment;
      DistinctValues distinct = sets.take();
      chunks[static_cast<size_t>(begin / kErrorChunk)].add_chunk(
          x + first + begin, y + first + begin, end - begin,
          values_ == Values::kCounted ? &distinct : nullptr);
      sets.put_back(std::move(distinct));
    });
    for (const Sums& chunk : chunks) sums_.merge(chunk);
  }
  distinct_ = sets.merged();
}

void Distortion::update_saturated(const Tensor& original, const Tensor& unsaturated) {
  DETENT_CHECK(original.shape() == unsaturated.shape(), "{} and {}", shape_text(original.shape()),
               shape_text(unsaturated.shape()));
  const std::span<const float> x = original.values<float>();
  const std::span<const float> held = unsaturated.values<float>();
  std::atomic<int64_t> saturated = 0;
  parallel_for(original.numel(), kErrorChunk, [&](int64_t begin, int64_t end) {
    int64_t of_chunk = 0;
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
      of_chunk += held[i] == 0.0F && std::isfinite(x[i]) ? 1 : 0;
    saturated += of_chunk;
  });
  saturated_ += saturated;
  saturation_known_ += original.numel();
}

void Distortion::merge(const Distortion& other) {
  sums_.merge(other.sums_);
  saturated_ += other.saturated_;
  saturation_known_ += other.saturation_known_;
  distinct_.merge(other.distinct_);
}

double Distortion::mean_squared_error() const {
  return finite_count() == 0 ? 0.0 : sums_.noise / static_cast<double>(finite_count());
}

double Distortion::cosine() const {
  if (sums_.signal == 0 || sums_.power == 0) return sums_.signal == sums_.power ? 1.0 : 0.0;
  return std::clamp(sums_.product / (std::sqrt(sums_.signal) * std::sqrt(sums_.power)), -1.0, 1.0);
}

double Distortion::zero_share() const { return share(sums_.zeros, finite_count()); }

std::optional<double> Distortion::saturated_share() const {
  if (saturation_known_ == 0 || saturation_known_ != sums_.count) return std::nullopt;
  return share(saturated_ - sums_.overflowed, finite_count());
}

Distortion measure_distortion(const QuantSpec& spec, const Tensor& input, uint64_t seed) {
  Tensor room(DType::kFloat32, input.shape());
  return measure_distortion(spec, input, room, seed);
}

Distortion measure_distortion(const QuantSpec& spec, const Tensor& input, Tensor& room, uint64_t seed) {
  Distortion distortion;
  fake_quantize(spec, input, room, seed);
  distortion.update(input, room);
  clipped_ste_mask(spec, input, room);
  distortion.update_saturated(input, room);
  return distortion;
}

}  // namespace detent
