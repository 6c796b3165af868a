#pragma once

#include <array>
#include <string>
#include <vector>

#include "detent/core/fields.h"
#include "detent/formats/elements/element.h"
#include "detent/formats/float_bits.h"

namespace detent {

/// Granularity of binary scales.
enum class BinaryScaling { kNone, kPerTensor, kPerChannel };
constexpr std::array<const char*, 3> enum_names(BinaryScaling) {
  return {"none", "per_tensor", "per_channel"};
}

/// Parameters of the kernel: `high` where x >= 0 (or above a random level), else `low`.
struct BinaryParameters {
  float low;
  float high;
  bool stochastic;
  uint64_t seed;

  std::array<float, 2> lanes() const { return {low, high}; }
  static ElementKernels<BinaryParameters> kernels();
};

/// x >= 0 gives +1, else -1 (or 0 when not bipolar), times alpha = mean|x| of the group (of its finite
/// elements) when scaled. No zero when bipolar; infinities give their sign, NaN stays. Stochastic: P(+1) =
/// clamp((x + 1) / 2, 0, 1). scaling = per_channel takes QuantSpec::axis as the channel dimension. The code
/// of +1 is 1.
struct Binary {
  static constexpr const char* kName = "binary";
  static constexpr std::array<const char*, 0> kAliases = {};
  static constexpr const char* kHelp = "one bit: -1 or +1 (or 0 or +1), optionally times a scale";
  using Parameters = BinaryParameters;
  static constexpr bool kHasNan = false;

  int width = 1;
  bool bipolar = true;
  bool stochastic = false;
  BinaryScaling scaling = BinaryScaling::kNone;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("width", self.width, "bits a code; always 1", Between{1, 1});
    visit("stochastic", self.stochastic, "draw the sign with P(+1) = clamp((x + 1) / 2, 0, 1)");
    visit("bipolar", self.bipolar, "codes are -1 and +1; otherwise 0 and +1");
    visit("scaling", self.scaling, "multiply by the mean |x| of the tensor or of each channel");
  }

  double bits() const { return width; }
  bool groups_are_channels() const { return scaling == BinaryScaling::kPerChannel; }
  const char* channel_conflict() const;
  void validate(const std::string&) const {}
  /// Throws Error when the values depend on the data.
  std::vector<float> values(const std::string& where) const;
  Parameters parameters(const Group& group, uint64_t seed) const;
  std::vector<ParameterStream> streams() const;
  void store(const Parameters& group, double* numbers) const;
  Parameters stored_parameters(const double* numbers) const;
  Interval unsaturated(const Parameters& group) const;

  bool operator==(const Binary&) const = default;

 private:
  Parameters scaled_by(float alpha, uint64_t seed) const;
};

}  // namespace detent
