#pragma once

#include <array>
#include <string>
#include <vector>

#include "detent/core/fields.h"
#include "detent/formats/float_bits.h"
#include "detent/formats/group.h"

namespace detent {

/// What shares one binary scale.
enum class BinaryScaling { kNone, kPerTensor, kPerChannel };
constexpr std::array<const char*, 3> enum_names(BinaryScaling) {
  return {"none", "per_tensor", "per_channel"};
}

/// What the kernel needs: `high` where x >= 0 (or above a random level), else `low`.
struct BinaryParameters {
  float low;
  float high;
  bool stochastic;
  uint64_t seed;
  Interval unsaturated;  // inputs
};

/// x >= 0 gives +1, else -1 (or 0 when not bipolar), times alpha = mean|x| of the group (of its finite
/// elements) when scaled. No zero when bipolar; infinities give their sign, NaN stays. Stochastic: P(+1) =
/// clamp((x + 1) / 2, 0, 1). scaling = per_channel takes QuantSpec::axis as the channel dimension.
struct Binary {
  static constexpr const char* kName = "binary";
  static constexpr std::array<const char*, 0> kAliases = {};
  static constexpr const char* kHelp = "one bit: -1 or +1 (or 0 or +1), optionally times a scale";
  using Parameters = BinaryParameters;

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
  const char* channel_conflict() const {
    if (scaling == BinaryScaling::kNone) return "without scaling, binary derives nothing from the data";
    return scaling == BinaryScaling::kPerTensor ? "scaling = \"per_tensor\" says otherwise" : nullptr;
  }
  void validate(const std::string&) const {}
  /// Throws Error when the values depend on the data.
  std::vector<float> values(const std::string& where) const {
    if (scaling != BinaryScaling::kNone) fail("{}: the values depend on the data, because of scaling", where);
    return {bipolar ? -1.0F : 0.0F, 1.0F};
  }

  Parameters parameters(const Group& group, uint64_t seed) const {
    const float alpha =
        scaling == BinaryScaling::kNone ? 1.0F : static_cast<float>(group.magnitudes().mean());
    const float low = bipolar ? 0 - alpha : 0.0F;  // +0 where alpha is 0
    return {.low = low, .high = alpha, .stochastic = stochastic, .seed = seed, .unsaturated = {low, alpha}};
  }

  bool operator==(const Binary&) const = default;
};

}  // namespace detent
