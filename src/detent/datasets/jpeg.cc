#include <csetjmp>
#include <cstdio>

// After <cstdio>: they use FILE and size_t without saying so.
#include <jpeglib.h>

#include <jerror.h>

#include "detent/core/error.h"
#include "detent/datasets/image.h"

namespace detent {
namespace {

/// libjpeg reports an error by a call that must not return. It is left by longjmp, so between setjmp and the
/// calls of libjpeg no object with a destructor may come to life; hence members.
class JpegDecoder {
 public:
  JpegDecoder(std::span<const std::byte> bytes, const std::string& name) : bytes_(bytes), name_(name) {
    state_.err = jpeg_std_error(&errors_.manager);
    errors_.manager.error_exit = [](j_common_ptr state) { leave(state); };
    errors_.manager.emit_message = [](j_common_ptr state, int level) {
      if (level < 0 && is_damage(state->err->msg_code)) leave(state);
    };
  }
  ~JpegDecoder() { jpeg_destroy_decompress(&state_); }
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  ImageSize size() {
    if (!read_header()) fail_damaged();
    return {state_.image_height, state_.image_width};
  }

  RgbImage run() {
    const ImageSize whole = size();
    check_image_size(whole.height, whole.width, name_);
    image_.height = whole.height;
    image_.width = whole.width;
    row_bytes_ = static_cast<size_t>(image_.width) * (is_cmyk() ? 4 : 3);
    pixels_.resize(static_cast<size_t>(image_.height) * row_bytes_);
    if (!read_pixels()) fail_damaged();
    if (is_cmyk()) {
      mix_down();
    } else {
      image_.pixels = std::move(pixels_);
    }
    return std::move(image_);
  }

 private:
  struct Errors {
    jpeg_error_mgr manager;  // first: libjpeg knows the whole by its address
    jmp_buf target;
    char message[JMSG_LENGTH_MAX];
  };

  [[noreturn]] static void leave(j_common_ptr state) {
    auto* errors = reinterpret_cast<Errors*>(state->err);
    errors->manager.format_message(state, errors->message);
    longjmp(errors->target, 1);
  }
  /// Warnings after which libjpeg makes up pixels; others ("extraneous bytes") occur in sound files.
  static bool is_damage(int code) {
    return code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE ||
           code == JWRN_ARITH_BAD_CODE || code == JWRN_MUST_RESYNC || code == JWRN_NOT_SEQUENTIAL ||
           code == JWRN_BOGUS_PROGRESSION;
  }
  [[noreturn]] void fail_damaged() const { fail("{}: damaged JPEG file: {}", name_, errors_.message); }

  bool is_cmyk() const { return state_.jpeg_color_space == JCS_CMYK || state_.jpeg_color_space == JCS_YCCK; }

  bool read_header() {
    if (setjmp(errors_.target) != 0) return false;
    jpeg_create_decompress(&state_);
    jpeg_mem_src(&state_, reinterpret_cast<const unsigned char*>(bytes_.data()), bytes_.size());
    jpeg_read_header(&state_, TRUE);
    return true;
  }

  bool read_pixels() {
    if (setjmp(errors_.target) != 0) return false;
    state_.out_color_space = is_cmyk() ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(&state_);
    while (state_.output_scanline < state_.output_height) {
      JSAMPROW row = pixels_.data() + state_.output_scanline * row_bytes_;
      jpeg_read_scanlines(&state_, &row, 1);
    }
    jpeg_finish_decompress(&state_);
    return true;
  }

  /// As Pillow does: each of c, m, y is taken from what black leaves. Adobe's files hold 255 - value.
  void mix_down() {
    const unsigned flip = state_.saw_Adobe_marker ? 255 : 0;
    image_.pixels.reserve(pixels_.size() / 4 * 3);
    for (size_t i = 0; i < pixels_.size(); i += 4) {
      const unsigned light = 255 - (pixels_[i + 3] ^ flip);
      for (size_t channel = 0; channel < 3; ++channel) {
        const unsigned product = (pixels_[i + channel] ^ flip) * light + 128;
        const unsigned absorbed = ((product >> 8) + product) >> 8;  // product / 255, rounded
        image_.pixels.push_back(static_cast<uint8_t>(absorbed > light ? 0 : light - absorbed));
      }
    }
  }

  std::span<const std::byte> bytes_;
  const std::string& name_;
  Errors errors_{};
  jpeg_decompress_struct state_{};
  RgbImage image_;
  std::vector<uint8_t> pixels_;
  size_t row_bytes_ = 0;
};

}  // namespace

RgbImage decode_jpeg(std::span<const std::byte> bytes, const std::string& name) {
  return JpegDecoder(bytes, name).run();
}

ImageSize jpeg_size(std::span<const std::byte> bytes, const std::string& name) {
  return JpegDecoder(bytes, name).size();
}

}  // namespace detent
