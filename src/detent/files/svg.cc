#include "detent/files/svg.h"

#include <fmt/format.h>

#include "detent/files/file.h"

namespace detent {
namespace {

/// Hundredths of a pixel are enough, and keep the file small.
std::string number(double value) {
  std::string text = fmt::format("{:.2f}", value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text == "-0" ? "0" : text;
}

std::string escaped_xml(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '&') {
      result += "&amp;";
    } else if (c == '<') {
      result += "&lt;";
    } else if (c == '>') {
      result += "&gt;";
    } else if (c == '"') {
      result += "&quot;";
    } else {
      result += c;
    }
  }
  return result;
}

}  // namespace

SvgDrawing::SvgDrawing(double width, double height) : width_(width), height_(height) {
  rectangle(0, 0, width, height, "white");
}

void SvgDrawing::rectangle(double x, double y, double width, double height, std::string_view fill) {
  elements_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>\n", number(x),
                           number(y), number(width), number(height), escaped_xml(fill));
}

void SvgDrawing::line(double x1, double y1, double x2, double y2, std::string_view stroke, double thickness) {
  elements_ +=
      fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"{}\" stroke-width=\"{}\"/>\n",
                  number(x1), number(y1), number(x2), number(y2), escaped_xml(stroke), number(thickness));
}

void SvgDrawing::text(double x, double y, std::string_view text, double size, Anchor anchor) {
  constexpr const char* kAnchors[] = {"start", "middle", "end"};
  elements_ += fmt::format(
      "<text x=\"{}\" y=\"{}\" font-size=\"{}\" text-anchor=\"{}\" font-family=\"sans-serif\">{}</text>\n",
      number(x), number(y), number(size), kAnchors[static_cast<size_t>(anchor)], escaped_xml(text));
}

std::string SvgDrawing::to_text() const {
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 "
      "{0} {1}\">\n"
      "{2}</svg>\n",
      number(width_), number(height_), elements_);
}

void SvgDrawing::write(const std::filesystem::path& path) const { write_file(path, to_text()); }

}  // namespace detent
