#pragma once

#include <array>
#include <optional>
#include <vector>

#include "detent/core/fields.h"

namespace detent {

/// Order of the channels in a sample, and of its dimensions: [C, H, W] or [H, W, C].
enum class ChannelOrder { kRgb, kBgr };
constexpr std::array<const char*, 2> enum_names(ChannelOrder) { return {"rgb", "bgr"}; }
enum class ImageLayout { kNchw, kNhwc };
constexpr std::array<const char*, 2> enum_names(ImageLayout) { return {"nchw", "nhwc"}; }

/// Applied to the images of a data set before a network sees them, in this order.
struct ImageTransforms {
  std::optional<int64_t> resize = {};
  std::optional<int64_t> center_crop = {};
  bool random_crop = false;
  int64_t crop_padding = 0;
  double horizontal_flip = 0;
  std::optional<std::vector<double>> image_mean = {};
  std::optional<std::vector<double>> image_std = {};
  ChannelOrder channel_order = ChannelOrder::kRgb;
  ImageLayout layout = ImageLayout::kNchw;

  bool operator==(const ImageTransforms&) const = default;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("resize", self.resize,
          "images: length of the shorter side that they are scaled to; NA: as they are, image_folder: 8/7 of "
          "image_size, but for images of that size",
          Between{1, 65536});
    visit("center_crop", self.center_crop,
          "images: side of the square that is cut from the middle; NA: all of it, image_folder: image_size",
          Between{1, 65536});
    visit("random_crop", self.random_crop, "images, while training: the cut is at a random place instead");
    visit("crop_padding", self.crop_padding,
          "images, while training: black pixels at each side before the random cut", Between{0, 65536});
    visit("horizontal_flip", self.horizontal_flip, "images, while training: share that is mirrored",
          Between{0, 1});
    visit("image_mean", self.image_mean,
          "images: mean of each channel, of levels from 0 to 1; NA: the data set's own", Between{-1e6, 1e6});
    visit("image_std", self.image_std, "images: standard deviation likewise, that levels are divided by",
          Between{1e-6, 1e6});
    visit("channel_order", self.channel_order, "images: order of the channels that the network takes");
    visit("layout", self.layout, "images: order of the dimensions that the network takes");
  }
};

}  // namespace detent
