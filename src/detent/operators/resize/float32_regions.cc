#include <algorithm>

#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/inference/float_node.h"
#include "detent/inference/region_samples.h"
#include "detent/kernels/tensor_layout.h"

namespace detent {
namespace {

/// One image, of adjacent channels.
struct ImagePixels {
  const float* values;
  int64_t width;
  int64_t channels;

  const float* at(int64_t row, int64_t column) const { return values + (row * width + column) * channels; }
};

/// The channels of one bin: sums of four products a sample, in the order of the samples, or the largest
/// product.
class BinChannels {
 public:
  BinChannels(const ImagePixels& image, bool takes_largest, float* bin)
      : image_(image), takes_largest_(takes_largest), bin_(bin) {
    std::fill_n(bin, image.channels, 0.0F);
  }

  void add(const RegionSamples& rows, size_t y, const RegionSamples& columns, size_t x) {
    const float* const taps[] = {
        image_.at(rows.low[y], columns.low[x]), image_.at(rows.low[y], columns.high[x]),
        image_.at(rows.high[y], columns.low[x]), image_.at(rows.high[y], columns.high[x])};
    const float shares[] = {
        rows.low_share[y] * columns.low_share[x], rows.low_share[y] * columns.high_share[x],
        rows.high_share[y] * columns.low_share[x], rows.high_share[y] * columns.high_share[x]};
    for (int64_t c = 0; c < image_.channels; ++c) {
      const float a = taps[0][c] * shares[0];
      const float b = taps[1][c] * shares[1];
      const float d = taps[2][c] * shares[2];
      const float e = taps[3][c] * shares[3];
      if (takes_largest_) {
        const float largest = std::max(std::max(std::max(a, b), d), e);
        bin_[c] = count_ == 0 ? largest : std::max(bin_[c], largest);
      } else {
        bin_[c] += a + b + d + e;
      }
    }
    ++count_;
  }
  void finish() {
    if (takes_largest_ || count_ == 0) return;
    for (int64_t c = 0; c < image_.channels; ++c) bin_[c] /= static_cast<float>(count_);
  }

 private:
  const ImagePixels& image_;
  bool takes_largest_;
  float* bin_;
  int64_t count_ = 0;
};

/// The bins of a region, of adjacent channels.
void align_region(const ImagePixels& image, const RegionGrid& grid, const RegionSamples& rows,
                  const RegionSamples& columns, float* bins) {
  for (int64_t i = 0; i < grid.height(); ++i) {
    for (int64_t j = 0; j < grid.width(); ++j, bins += image.channels) {
      BinChannels bin(image, grid.takes_largest(), bins);
      for (int64_t y = i * rows.per_bin; y < (i + 1) * rows.per_bin; ++y) {
        for (int64_t x = j * columns.per_bin; x < (j + 1) * columns.per_bin; ++x)
          bin.add(rows, static_cast<size_t>(y), columns, static_cast<size_t>(x));
      }
      bin.finish();
    }
  }
}

Tensor aligned_regions(const FloatNode& n) {
  const Tensor& images = n.tensor(0);
  const Tensor& regions = n.tensor(1);
  const std::vector<int64_t> which = n.integers(2);
  const int64_t count = regions.dim(0);
  if (std::ssize(which) != count)
    fail("node \"{}\": got {} regions and {} indices of images", n.node.name, count, which.size());
  for (const int64_t image : which) {
    if (image < 0 || image >= images.dim(0))
      fail("node \"{}\": got the image {} of {}", n.node.name, image, images.dim(0));
  }
  const RegionGrid grid(n.node);
  const int64_t channels = images.dim(1);
  const int64_t bins = grid.height() * grid.width();
  const Tensor pixels = channels_last(images);
  Tensor result = result_tensor({count, channels, grid.height(), grid.width()});
  parallel_for(count, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> of_region(static_cast<size_t>(bins * channels));
    for (int64_t r = begin; r < end; ++r) {
      const float* const box = regions.values<float>().data() + r * 4;
      const ImagePixels image{pixels.values<float>().data() +
                                  which[static_cast<size_t>(r)] * (channels * images.dim(2) * images.dim(3)),
                              images.dim(3), channels};
      align_region(image, grid, grid.rows(box[1], box[3], images.dim(2)),
                   grid.columns(box[0], box[2], images.dim(3)), of_region.data());
      channels_to_front(of_region.data(), channels, bins, result.values<float>().data() + r * bins * channels,
                        bins);
    }
  });
  return result;
}

}  // namespace

FloatOperators region_operators() { return {{"roi_align", aligned_regions}}; }

}  // namespace detent
