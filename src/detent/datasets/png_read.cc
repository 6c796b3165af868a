#include <png.h>

#include <csetjmp>
#include <cstring>

#include "detent/core/error.h"
#include "detent/datasets/image.h"

namespace detent {
namespace {

/// libpng reports an error by a call that must not return. It is left by longjmp, so between setjmp and the
/// calls of libpng no object with a destructor may come to life; hence members.
class PngDecoder {
 public:
  PngDecoder(std::span<const std::byte> bytes, const std::string& name) : unread_(bytes), name_(name) {
    state_ = png_create_read_struct(
        PNG_LIBPNG_VER_STRING, this, [](png_structp state, const char* text) { leave(state, text); },
        [](png_structp, const char*) {});
    DETENT_CHECK(state_ != nullptr, "libpng of another version than {}", PNG_LIBPNG_VER_STRING);
  }
  ~PngDecoder() { png_destroy_read_struct(&state_, &info_, nullptr); }
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;

  ImageSize size() {
    if (!read_header()) fail_damaged();
    return {png_get_image_height(state_, info_), png_get_image_width(state_, info_)};
  }

  RgbImage run() {
    const ImageSize whole = size();
    image_.height = whole.height;
    image_.width = whole.width;
    check_image_size(image_.height, image_.width, name_);
    const size_t row_bytes = static_cast<size_t>(image_.width) * 3;
    image_.pixels.resize(static_cast<size_t>(image_.height) * row_bytes);
    for (size_t row = 0; row < static_cast<size_t>(image_.height); ++row)
      rows_.push_back(image_.pixels.data() + row * row_bytes);
    if (!read_pixels(row_bytes)) fail_damaged();
    return std::move(image_);
  }

 private:
  [[noreturn]] void fail_damaged() const { fail("{}: damaged PNG file: {}", name_, message_); }

  [[noreturn]] static void leave(png_structp state, const char* text) {
    auto* decoder = static_cast<PngDecoder*>(png_get_error_ptr(state));
    std::strncpy(decoder->message_, text, sizeof(decoder->message_) - 1);
    longjmp(decoder->target_, 1);
  }
  static void take(png_structp state, png_bytep target, size_t size) {
    auto* decoder = static_cast<PngDecoder*>(png_get_io_ptr(state));
    if (size > decoder->unread_.size()) png_error(state, "it is cut off");
    std::memcpy(target, decoder->unread_.data(), size);
    decoder->unread_ = decoder->unread_.subspan(size);
  }

  bool read_header() {
    if (setjmp(target_) != 0) return false;
    info_ = png_create_info_struct(state_);
    png_set_read_fn(state_, this, take);
    png_set_user_limits(state_, kMostPixels, kMostPixels);
    png_read_info(state_, info_);
    return true;
  }

  bool read_pixels(size_t row_bytes) {
    if (setjmp(target_) != 0) return false;
    png_set_expand(state_);  // palettes and fewer than 8 bits
    png_set_strip_16(state_);
    png_set_strip_alpha(state_);
    png_set_gray_to_rgb(state_);
    png_set_interlace_handling(state_);
    png_read_update_info(state_, info_);
    if (png_get_rowbytes(state_, info_) != row_bytes) png_error(state_, "a row has another size");
    png_read_image(state_, rows_.data());
    png_read_end(state_, nullptr);
    return true;
  }

  std::span<const std::byte> unread_;
  const std::string& name_;
  png_structp state_ = nullptr;
  png_infop info_ = nullptr;
  jmp_buf target_{};
  char message_[200] = {};
  RgbImage image_;
  std::vector<png_bytep> rows_;
};

}  // namespace

RgbImage decode_png(std::span<const std::byte> bytes, const std::string& name) {
  return PngDecoder(bytes, name).run();
}

ImageSize png_size(std::span<const std::byte> bytes, const std::string& name) {
  return PngDecoder(bytes, name).size();
}

}  // namespace detent
