#include <algorithm>
#include <array>
#include <cmath>

#include "detent/core/parallel.h"
#include "detent/graph/operators.h"
#include "detent/inference/float_node.h"
#include "detent/kernels/tensor_layout.h"

namespace detent {
namespace {

constexpr size_t kMostDims = 3;
constexpr int64_t kOutside = -1;

/// Pixels along one dimension and their shares of a value.
struct AxisTaps {
  size_t count = 0;
  std::array<int64_t, 4> pixels = {};
  std::array<float, 4> shares = {};
};

/// Cubic convolution with a = -0.75: shares of the four pixels around a place `after` after the second one.
std::array<float, 4> cubic_shares(float after) {
  constexpr float kA = -0.75F;
  const auto far = [](float t) { return ((t * kA + -5 * kA) * t + 8 * kA) * t + -4 * kA; };
  const auto near = [](float t) { return (t * (kA + 2) + -(kA + 3)) * t * t + 1; };
  const float before = 1 - after;
  return {far(after + 1), near(after), near(before), far(before + 1)};
}

/// One dimension of the images that a node of `grid_sample` reads, of so many pixels.
class GridAxis {
 public:
  GridAxis(const Node& node, int64_t pixels)
      : curve_(static_cast<Curve>(choice_index(node, "mode"))),
        beyond_(static_cast<Beyond>(choice_index(node, "padding_mode"))),
        from_centres_(boolean_attribute(node, "align_corners")),
        pixels_(pixels),
        size_(static_cast<float>(pixels)) {}

  size_t taps() const { return curve_ == Curve::kNearest ? 1 : curve_ == Curve::kLinear ? 2 : 4; }

  AxisTaps taps_at(float share) const {
    const float place = place_of(share);
    AxisTaps taps;
    if (curve_ == Curve::kNearest) {
      add(taps, std::nearbyint(place), 1);
      return taps;
    }
    const float first = std::floor(place);
    const float after = place - first;
    if (curve_ == Curve::kLinear) {
      add(taps, first, 1 - after);
      add(taps, first + 1, after);
      return taps;
    }
    const std::array<float, 4> shares = cubic_shares(after);
    for (size_t i = 0; i < shares.size(); ++i) add(taps, first + static_cast<float>(i) - 1, shares[i]);
    return taps;
  }

 private:
  // As the operator lists its choices.
  enum class Curve { kLinear, kNearest, kCubic };
  enum class Beyond { kZeros, kBorder, kReflection };

  /// A number from -1 to 1 as a place among pixels. Cubic curves go on beyond a border: only the pixels that
  /// they read are those of the border.
  float place_of(float share) const {
    const float raised = share + 1;
    float place = from_centres_ ? raised * (size_ - 1) * 0.5F : (raised * size_ - 1) * 0.5F;
    if (beyond_ == Beyond::kZeros || (beyond_ == Beyond::kBorder && curve_ == Curve::kCubic)) return place;
    if (curve_ == Curve::kNearest) place = std::nearbyint(place);
    return beyond_ == Beyond::kReflection ? reflected(place) : std::min(std::max(place, 0.0F), size_ - 1);
  }

  /// Back and forth between the outer edges of the last pixels, or their centres; one pixel's centre is
  /// reflected to itself.
  float reflected(float x) const {
    const float low = from_centres_ ? 0.0F : -0.5F;
    const float period = 2 * (from_centres_ ? std::max(size_ - 1, 0.5F) : size_);
    float along = std::fmod(x - low, period);
    if (along < 0) along += period;
    return std::min(along, period - along) + low;
  }

  void add(AxisTaps& taps, float place, float share) const {
    if (beyond_ == Beyond::kReflection) place = reflected(place);
    const bool is_there = place >= 0 && place < size_;
    int64_t pixel = kOutside;
    if (is_there) {
      pixel = static_cast<int64_t>(place);
    } else if (beyond_ != Beyond::kZeros) {
      pixel = place > 0 ? pixels_ - 1 : 0;
    }
    taps.pixels[taps.count] = pixel;
    taps.shares[taps.count++] = share;
  }

  Curve curve_;
  Beyond beyond_;
  bool from_centres_;
  int64_t pixels_;
  float size_;
};

/// Pixels of an image and their shares of each of some values: `taps` of the first value, then of the next.
struct GridTaps {
  size_t taps = 1;
  std::vector<int64_t> pixels = {};
  std::vector<float> shares = {};

  /// Adds the next value's, along all dimensions; those along the first one vary fastest.
  void add(std::span<const AxisTaps> axes, std::span<const int64_t> sizes) {
    for (size_t choice = 0; choice < taps; ++choice) {
      int64_t pixel = 0;
      float share = 1;
      size_t rest = choice;
      for (size_t d = 0; d < axes.size(); ++d) {
        const size_t tap = rest % axes[d].count;
        rest /= axes[d].count;
        const int64_t along = axes[d].pixels[tap];
        pixel = pixel == kOutside || along == kOutside ? kOutside : pixel * sizes[d] + along;
        share *= axes[d].shares[tap];
      }
      pixels.push_back(pixel);
      shares.push_back(share);
    }
  }

  /// The channels of a value of an image, whose pixels have adjacent ones.
  void value(const float* image, int64_t channels, size_t index, float* to) const {
    for (size_t i = index * taps; i < (index + 1) * taps; ++i) {
      const bool is_first = i == index * taps;
      if (is_first) std::fill_n(to, channels, 0.0F);
      // Beyond the image pixels are 0, and their share may be NaN.
      const bool is_there = pixels[i] != kOutside;
      const float* const pixel = is_there ? image + pixels[i] * channels : nullptr;
      const float share = shares[i];
      if (!is_there) {
        for (int64_t c = 0; c < channels; ++c) to[c] += 0 * share;
      } else if (is_first) {
        for (int64_t c = 0; c < channels; ++c) to[c] = pixel[c] * share;
      } else {
        for (int64_t c = 0; c < channels; ++c) to[c] += pixel[c] * share;
      }
    }
  }
};

/// Samples of images, whose taps are found once for all channels.
class GridSamples {
 public:
  explicit GridSamples(const FloatNode& n)
      : grid_(n.tensor(1)),
        sizes_(n.tensor(0).shape().begin() + 2, n.tensor(0).shape().end()),
        channels_(n.tensor(0).dim(1)),
        pixels_(channels_last(n.tensor(0))) {
    for (const int64_t size : sizes_) taps_ *= axes_.emplace_back(n.node, size).taps();
  }

  /// Values [first, first + count) of an image to adjacent channels.
  void sample(int64_t image, int64_t values, int64_t first, int64_t count, float* to) const {
    const auto dims = std::ssize(sizes_);
    GridTaps taps{.taps = taps_};
    taps.pixels.reserve(taps_ * static_cast<size_t>(count));
    taps.shares.reserve(taps_ * static_cast<size_t>(count));
    for (int64_t i = first; i < first + count; ++i) {
      const float* const place = grid_.values<float>().data() + (image * values + i) * dims;
      std::array<AxisTaps, kMostDims> along;
      for (int64_t d = 0; d < dims; ++d)
        along[static_cast<size_t>(d)] = axes_[static_cast<size_t>(d)].taps_at(place[dims - 1 - d]);
      taps.add({along.data(), sizes_.size()}, sizes_);
    }
    const float* const pixels = pixels_.values<float>().data() + image * channels_ * element_count(sizes_);
    for (int64_t i = 0; i < count; ++i)
      taps.value(pixels, channels_, static_cast<size_t>(i), to + i * channels_);
  }

 private:
  const Tensor& grid_;
  std::vector<int64_t> sizes_;
  int64_t channels_;
  Tensor pixels_;
  std::vector<GridAxis> axes_;
  size_t taps_ = 1;
};

Tensor grid_samples(const FloatNode& n) {
  constexpr int64_t kBlock = 256;
  const Tensor& images = n.tensor(0);
  const Tensor& grid = n.tensor(1);
  const int64_t channels = images.dim(1);
  Shape shape = {images.dim(0), channels};
  shape.insert(shape.end(), grid.shape().begin() + 1, grid.shape().end() - 1);
  const int64_t values = element_count(Shape(shape.begin() + 2, shape.end()));
  const int64_t blocks = (values + kBlock - 1) / kBlock;
  const GridSamples samples(n);
  Tensor result = result_tensor(shape);
  parallel_for(images.dim(0) * blocks, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> of_block(static_cast<size_t>(std::min(kBlock, values) * channels));
    for (int64_t block = begin; block < end; ++block) {
      const int64_t image = block / blocks;
      const int64_t first = block % blocks * kBlock;
      const int64_t count = std::min(kBlock, values - first);
      samples.sample(image, values, first, count, of_block.data());
      channels_to_front(of_block.data(), channels, count,
                        result.values<float>().data() + image * channels * values + first, values);
    }
  });
  return result;
}

}  // namespace

FloatOperators grid_operators() { return {{"grid_sample", grid_samples}}; }

}  // namespace detent
