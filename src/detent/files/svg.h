#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace detent {

/// A drawing of rectangles, lines and text as Scalable Vector Graphics 1.1. Lengths are in pixels, y grows
/// downward. Colours are those of SVG ("#4477aa", "grey").
class SvgDrawing {
 public:
  enum class Anchor { kStart, kMiddle, kEnd };

  /// On white.
  SvgDrawing(double width, double height);

  void rectangle(double x, double y, double width, double height, std::string_view fill);
  void line(double x1, double y1, double x2, double y2, std::string_view stroke, double thickness = 1);
  /// Any characters; `x` is where the text begins, has its middle or ends, `y` its base line.
  void text(double x, double y, std::string_view text, double size, Anchor anchor = Anchor::kStart);

  std::string to_text() const;
  /// Under a temporary name that is renamed. Throws Error naming the path when that fails.
  void write(const std::filesystem::path& path) const;

 private:
  double width_;
  double height_;
  std::string elements_;
};

}  // namespace detent
