#pragma once

#include <cstdint>
#include <vector>

#include "detent/graph/graph.h"

namespace detent {

/// Samples of a region along one dimension of an image: each lies between two pixels, which have shares of it
/// that are 0 where the sample lies outside of the image.
struct RegionSamples {
  int64_t per_bin = 0;
  std::vector<int64_t> low = {};
  std::vector<int64_t> high = {};
  std::vector<float> low_share = {};
  std::vector<float> high_share = {};
};

/// How a node of `roi_align` samples regions (He et al., Mask R-CNN, 2017), in float32 as ONNX Runtime does.
/// Needs the node as long as it lives.
class RegionGrid {
 public:
  explicit RegionGrid(const Node& node);

  int64_t height() const { return height_; }
  int64_t width() const { return width_; }
  bool takes_largest() const { return takes_largest_; }
  /// Samples of a region from `begin` to `end`, in its own units, of an image of so many rows of pixels.
  RegionSamples rows(float begin, float end, int64_t pixels) const {
    return along(begin, end, height_, pixels);
  }
  RegionSamples columns(float begin, float end, int64_t pixels) const {
    return along(begin, end, width_, pixels);
  }

 private:
  RegionSamples along(float begin, float end, int64_t bins, int64_t pixels) const;

  const Node& node_;
  int64_t height_;
  int64_t width_;
  int64_t samples_;
  float scale_;
  float offset_;
  bool takes_largest_;
};

}  // namespace detent
