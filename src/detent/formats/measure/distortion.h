#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "detent/core/tensor.h"
#include "detent/formats/measure/distinct_values.h"
#include "detent/formats/quant_spec.h"

namespace detent {

/// 10 log10(signal / noise) in dB, of sums of squares: infinite without noise, -infinite when only the noise
/// is not 0.
double sqnr_db(double signal, double noise);

/// Distortion of values by quantization, gathered in one pass and mergeable. Elements that are not finite
/// before or after are counted and have no part in the rest. Sums are in double over chunks of fixed size, in
/// order, so that threads do not change them. Memory does not grow with the tensors: beside the different
/// values (distinct_values.h), which each thread may hold once, there are the sums of a fixed number of
/// chunks.
class Distortion {
 public:
  /// Whether different values are counted, which takes half of the time.
  enum class Values { kIgnored, kCounted };

  Distortion() = default;
  explicit Distortion(Values values) : values_(values) {}

  /// Both float32, of the same shape. Throws Error otherwise.
  void update(const Tensor& original, const Tensor& quantized);
  /// Takes the `clipped_ste_mask` of the same originals; those with a 0 have saturated.
  void update_saturated(const Tensor& original, const Tensor& unsaturated);
  void merge(const Distortion& other);

  int64_t count() const { return sums_.count; }
  int64_t nonfinite_count() const { return sums_.nonfinite; }
  /// Largest |original - quantized|.
  double max_error() const { return sums_.max_error; }
  /// Mean of (original - quantized)^2; 0 of nothing.
  double mean_squared_error() const;
  /// The ratio of originals to errors, higher is better.
  double sqnr_db() const { return detent::sqnr_db(sums_.signal, sums_.noise); }
  /// Cosine of the angle between original and quantized as vectors: 1 when both are 0, 0 when one is.
  double cosine() const;
  /// Share of the quantized values that are 0.
  double zero_share() const;
  /// Share of the elements that saturated, when update_saturated told. Those that became infinite did not.
  std::optional<double> saturated_share() const;
  /// Different values among the quantized, where they are counted: the codes used, where all groups share one
  /// scale.
  const DistinctValues& distinct_values() const { return distinct_; }

 private:
  struct Sums {
    int64_t count = 0;
    int64_t nonfinite = 0;
    int64_t overflowed = 0;  // finite before, not after: a format with infinities did not hold them
    int64_t zeros = 0;
    double signal = 0;   // sum of original^2
    double noise = 0;    // sum of (original - quantized)^2
    double product = 0;  // sum of original * quantized
    double power = 0;    // sum of quantized^2
    double max_error = 0;

    void add_chunk(const float* original, const float* quantized, int64_t size, DistinctValues* distinct);
    void merge(const Sums& other);
  };

  int64_t finite_count() const { return sums_.count - sums_.nonfinite; }

  Values values_ = Values::kCounted;
  Sums sums_;
  int64_t saturated_ = 0;         // of the finite originals
  int64_t saturation_known_ = 0;  // elements
  DistinctValues distinct_;
};

/// Sums over pairs (x, y) of an original and a quantized value, side by side: pair i has its part in lane
/// i mod kLanes, in order, so that every instruction set adds the same numbers.
struct DifferenceSums {
  static constexpr size_t kLanes = 4;
  using Lanes = std::array<double, kLanes>;

  Lanes signal = {};   // sum of x^2
  Lanes noise = {};    // sum of (x - y)^2
  Lanes product = {};  // sum of x y
  Lanes power = {};    // sum of y^2
  Lanes largest = {};  // of |x - y|
  int64_t zeros = 0;   // among y
};

/// Pairs that are looked at together before they are added.
constexpr int64_t kDifferenceBlock = 256;

/// Adds whole blocks of pairs up to the first that has a value that is not finite. Returns the pairs added.
int64_t add_finite_blocks(const float* original, const float* quantized, int64_t size, DifferenceSums& sums);
/// The same, pair by pair.
int64_t add_finite_blocks_reference(const float* original, const float* quantized, int64_t size,
                                    DifferenceSums& sums);

/// All measures of `input` (float32) against fake_quantize(spec, input).
Distortion measure_distortion(const QuantSpec& spec, const Tensor& input, uint64_t seed = 0);
/// The same with room for the quantized elements, float32 of the input's shape; what is left there says
/// nothing.
Distortion measure_distortion(const QuantSpec& spec, const Tensor& input, Tensor& room, uint64_t seed = 0);

}  // namespace detent
