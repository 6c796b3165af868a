#include "detent/inference/region_samples.h"

#include <algorithm>
#include <cmath>

#include "detent/core/error.h"
#include "detent/graph/operators.h"

namespace detent {
namespace {

constexpr float kMostSamples = 4096;  // of a bin, in a dimension

void add_sample(float place, int64_t pixels, RegionSamples& samples) {
  const auto last = static_cast<float>(pixels - 1);
  const bool is_inside = place >= -1 && place <= static_cast<float>(pixels);  // not where it is NaN
  const float at = is_inside ? std::clamp(place, 0.0F, last) : 0;
  const auto low = static_cast<int64_t>(at);
  const float after = at - static_cast<float>(low);
  samples.low.push_back(low);
  samples.high.push_back(std::min(low + 1, pixels - 1));
  samples.low_share.push_back(is_inside ? 1 - after : 0);
  samples.high_share.push_back(is_inside ? after : 0);
}

}  // namespace

RegionGrid::RegionGrid(const Node& node)
    : node_(node),
      samples_(integer_attribute(node, "sampling_ratio")),
      scale_(static_cast<float>(number_attribute(node, "spatial_scale"))),
      offset_(boolean_attribute(node, "half_pixel") ? 0.5F : 0.0F),
      takes_largest_(choice_attribute(node, "reduction") == "max") {
  const auto sizes = integers_attribute(node, "output_size", 2);
  height_ = sizes[0];
  width_ = sizes[1];
}

RegionSamples RegionGrid::along(float begin, float end, int64_t bins, int64_t pixels) const {
  if (pixels < 1) fail("node \"{}\": got an image without pixels", node_.name);
  const float first = begin * scale_ - offset_;
  float size = end * scale_ - offset_ - first;
  if (offset_ == 0) size = std::max(size, 1.0F);
  const float bin = size / static_cast<float>(bins);
  const float wanted = samples_ > 0 ? static_cast<float>(samples_) : std::ceil(bin);
  if (!(wanted <= kMostSamples))
    fail("node \"{}\": a region from {} to {} has {} samples a bin, expected at most {}", node_.name, begin,
         end, wanted, kMostSamples);
  RegionSamples samples{.per_bin =
                            static_cast<int64_t>(std::max(wanted, 0.0F))};  // none of infinite width below 0
  for (int64_t i = 0; i < bins; ++i) {
    for (int64_t s = 0; s < samples.per_bin; ++s) {
      const float within = (static_cast<float>(s) + 0.5F) * bin / wanted;
      add_sample(first + static_cast<float>(i) * bin + within, pixels, samples);
    }
  }
  return samples;
}

}  // namespace detent
