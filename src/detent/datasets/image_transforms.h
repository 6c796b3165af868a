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
          "images: length of the shorter side after scaling; NA: unscaled, image_folder: 8/7 of image_size, "
          "except for images of that size",
          Between{1, 65536});
    visit("center_crop", self.center_crop,
          "images: side of the central crop; NA: none, image_folder: image_size", Between{1, 65536});
    visit("random_crop", self.random_crop, "images, training: crop at a random position");
    visit("crop_padding", self.crop_padding,
          "images, training: black pixels on each side before the random crop", Between{0, 65536});
    visit("horizontal_flip", self.horizontal_flip, "images, training: probability of mirroring",
          Between{0, 1});
    visit("image_mean", self.image_mean,
          "images: mean of each channel, for levels from 0 to 1; NA: the data set's own", Between{-1e6, 1e6});
    visit("image_std", self.image_std, "images: standard deviation likewise", Between{1e-6, 1e6});
    visit("channel_order", self.channel_order, "images: channel order of the network");
    visit("layout", self.layout, "images: layout of the network");
  }
};

}  // namespace detent
