#pragma once

#include <array>

#include "detent/core/fields.h"

namespace detent {

/// What shares one binary scale.
enum class BinaryScaling { kNone, kPerTensor, kPerChannel };
constexpr std::array<const char*, 3> enum_names(BinaryScaling) { return {"none", "per_tensor", "per_channel"}; }

/// x >= 0 gives +1, else -1 (or 0 when not bipolar), times alpha = mean|x| of the group when scaled. No zero when
/// bipolar. Stochastic: P(+1) = clamp((x + 1) / 2, 0, 1).
struct Binary {
  static constexpr const char* kName = "binary";
  static constexpr const char* kHelp = "one bit: -1 or +1 (or 0 or +1), optionally times a scale";

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

  bool operator==(const Binary&) const = default;
};

}  // namespace detent
