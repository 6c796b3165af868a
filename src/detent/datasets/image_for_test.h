#pragma once

#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <jpeglib.h>
#include <png.h>

namespace detent {

/// How a PNG file is to be written: rows of packed samples as the file has them.
struct PngLayout {
  uint32_t width = 1;
  uint32_t height = 1;
  int bit_depth = 8;
  int color_type = PNG_COLOR_TYPE_RGB;
  bool interlaced = false;
  std::vector<png_color> palette = {};
  std::vector<uint8_t> palette_alpha = {};
};

inline std::string png_bytes(const PngLayout& layout, std::vector<std::vector<uint8_t>> rows) {
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  std::string bytes;
  png_set_write_fn(
      png, &bytes,
      [](png_structp state, png_bytep data, size_t size) {
        static_cast<std::string*>(png_get_io_ptr(state))->append(reinterpret_cast<const char*>(data), size);
      },
      [](png_structp) {});
  png_set_IHDR(png, info, layout.width, layout.height, layout.bit_depth, layout.color_type,
               layout.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  if (!layout.palette.empty())
    png_set_PLTE(png, info, layout.palette.data(), static_cast<int>(layout.palette.size()));
  if (!layout.palette_alpha.empty()) {
    png_set_tRNS(png, info, layout.palette_alpha.data(), static_cast<int>(layout.palette_alpha.size()),
                 nullptr);
  }
  png_write_info(png, info);
  std::vector<png_bytep> pointers;
  for (auto& row : rows) pointers.push_back(row.data());
  png_write_image(png, pointers.data());
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  return bytes;
}

/// An image of one colour; `color` has a value a channel of `space` (JCS_RGB, JCS_GRAYSCALE, JCS_CMYK).
/// Adobe's marker, which CMYK files get, says that the values are inverted.
inline std::string jpeg_bytes(uint32_t width, uint32_t height, J_COLOR_SPACE space,
                              const std::vector<uint8_t>& color) {
  jpeg_compress_struct state{};
  jpeg_error_mgr errors{};
  state.err = jpeg_std_error(&errors);
  jpeg_create_compress(&state);
  unsigned char* data = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&state, &data, &size);
  state.image_width = width;
  state.image_height = height;
  state.input_components = static_cast<int>(color.size());
  state.in_color_space = space;
  jpeg_set_defaults(&state);
  jpeg_set_quality(&state, 100, TRUE);
  jpeg_start_compress(&state, TRUE);
  std::vector<uint8_t> row;
  for (uint32_t x = 0; x < width; ++x) row.insert(row.end(), color.begin(), color.end());
  while (state.next_scanline < height) {
    JSAMPROW pointer = row.data();
    jpeg_write_scanlines(&state, &pointer, 1);
  }
  jpeg_finish_compress(&state);
  std::string bytes(reinterpret_cast<const char*>(data), size);
  jpeg_destroy_compress(&state);
  std::free(data);
  return bytes;
}

}  // namespace detent
