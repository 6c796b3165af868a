#include "detent/formats/distortion.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "detent/core/parallel.h"
#include "detent/formats/unsaturated_mask.h"
#include "detent/formats/float_environment.h"

namespace detent {
namespace {

constexpr int64_t kChunk = int64_t{1} << 16;

double share(int64_t part, int64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

void Distortion::add_chunk(const float* original, const float* quantized, int64_t count) {
  count_ += count;
  for (int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(original[i]) || !std::isfinite(quantized[i])) {
      ++nonfinite_;
      continue;
    }
    const double x = static_cast<double>(original[i]);
    const double y = static_cast<double>(quantized[i]);
    const double error = x - y;
    signal_ += x * x;
    noise_ += error * error;
    product_ += x * y;
    power_ += y * y;
    max_error_ = std::max(max_error_, std::fabs(error));
    zeros_ += y == 0 ? 1 : 0;
    distinct_.insert(quantized[i]);
  }
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
  std::vector<Distortion> chunks(static_cast<size_t>((original.numel() + kChunk - 1) / kChunk));
  parallel_for(original.numel(), kChunk, [&](int64_t begin, int64_t end) {
    const DefaultFloatEnvironment environment;
    for (; begin < end; begin += kChunk) {
      chunks[static_cast<size_t>(begin / kChunk)].add_chunk(x + begin, y + begin,
                                                            std::min(kChunk, end - begin));
    }
  });
  for (const Distortion& chunk : chunks) merge(chunk);
}

void Distortion::update_saturated(const Tensor& unsaturated) {
  for (const float held : unsaturated.values<float>()) saturated_ += held == 0.0F ? 1 : 0;
  saturation_known_ += unsaturated.numel();
}

void Distortion::merge(const Distortion& other) {
  count_ += other.count_;
  nonfinite_ += other.nonfinite_;
  zeros_ += other.zeros_;
  saturated_ += other.saturated_;
  saturation_known_ += other.saturation_known_;
  signal_ += other.signal_;
  noise_ += other.noise_;
  product_ += other.product_;
  power_ += other.power_;
  max_error_ = std::max(max_error_, other.max_error_);
  distinct_.merge(other.distinct_);
}

double Distortion::mean_squared_error() const {
  const int64_t finite = count_ - nonfinite_;
  return finite == 0 ? 0.0 : noise_ / static_cast<double>(finite);
}

double Distortion::sqnr_db() const {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (noise_ == 0) return kInfinity;
  return signal_ == 0 ? -kInfinity : 10 * std::log10(signal_ / noise_);
}

double Distortion::cosine() const {
  if (signal_ == 0 || power_ == 0) return signal_ == power_ ? 1.0 : 0.0;
  return std::clamp(product_ / (std::sqrt(signal_) * std::sqrt(power_)), -1.0, 1.0);
}

double Distortion::zero_share() const { return share(zeros_, count_ - nonfinite_); }

std::optional<double> Distortion::saturated_share() const {
  if (saturation_known_ == 0 || saturation_known_ != count_) return std::nullopt;
  return share(saturated_, saturation_known_);
}

Distortion measure_distortion(const QuantSpec& spec, const Tensor& input, uint64_t seed) {
  Tensor room(DType::kFloat32, input.shape());
  return measure_distortion(spec, input, room, seed);
}

Distortion measure_distortion(const QuantSpec& spec, const Tensor& input, Tensor& room, uint64_t seed) {
  Distortion distortion;
  simulate(spec, input, room, seed);
  distortion.update(input, room);
  unsaturated_mask(spec, input, room);
  distortion.update_saturated(room);
  return distortion;
}

}  // namespace detent
