#include "detent/cli/read_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "detent/core/error.h"

namespace detent {
namespace {

constexpr std::string_view kShapeExample = "1,3,224,224";

Shape parse_shape(const std::string& text) {
  Shape shape;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    int64_t size = 0;
    const auto [stop, error] = std::from_chars(text.data() + begin, text.data() + end, size);
    if (error != std::errc() || stop != text.data() + end || size < 1)
      throw UsageError(fmt::format("--shape: got \"{}\", expected numbers above 0: {}", text, kShapeExample));
    shape.push_back(size);
    begin = end + 1;
  }
  return shape;
}

}  // namespace

std::pair<std::string, std::string> named_value(std::string_view option, std::string_view value,
                                                const std::string& text) {
  const size_t at = text.rfind('=');
  if (at == std::string::npos || at == 0 || at + 1 == text.size())
    throw UsageError(fmt::format("{}: got \"{}\", expected NAME={}", option, text, value));
  return {text.substr(0, at), text.substr(at + 1)};
}

InputShapes named_shapes(std::span<const std::string> texts) {
  InputShapes shapes;
  for (const std::string& text : texts) {
    const auto [name, sizes] = named_value("--shape", kShapeExample, text);
    shapes[name] = parse_shape(sizes);
  }
  return shapes;
}

InputShapes listed_shapes(const std::string& text) {
  std::vector<std::string> texts;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(';', begin), text.size());
    const size_t first = text.find_first_not_of(' ', begin);
    if (first < end) texts.push_back(text.substr(first, end - first));
    begin = end + 1;
  }
  return named_shapes(texts);
}

}  // namespace detent
