#include "detent/files/array_files.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "detent/core/error.h"
#include "detent/core/text.h"
#include "detent/files/file.h"

namespace detent {
namespace {

/// Takes what is before the next `separator`, which goes too.
std::string_view take_until(std::string_view& text, char separator) {
  const std::string_view part = text.substr(0, text.find(separator));
  text.remove_prefix(std::min(text.size(), part.size() + 1));
  return part;
}

/// The nearest float32: 0 or a subnormal below its range, infinity above it; NaN for the words nan and inf;
/// nothing for any other text.
std::optional<float> csv_number(std::string_view field) {
  constexpr std::string_view kBlanks = " \t";
  const size_t begin = std::min(field.find_first_not_of(kBlanks), field.size());
  field = field.substr(begin, field.find_last_not_of(kBlanks) + 1 - begin);
  float value = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (end != field.data() + field.size() || error == std::errc::invalid_argument) return std::nullopt;
  // from_chars does not say at which end a number is out of range, strtof does.
  if (error == std::errc::result_out_of_range) return std::strtof(std::string(field).c_str(), nullptr);
  return std::isfinite(value) ? value : std::numeric_limits<float>::quiet_NaN();
}

/// A line with any number is a sample, however wrong the others are.
bool is_header(std::string_view line) {
  for (bool more = true; more;) {
    more = line.find(',') != std::string_view::npos;
    if (csv_number(take_until(line, ','))) return false;
  }
  return true;
}

/// An error's text ends at a zero byte.
std::string shown(std::string_view field) { return printable_line(field.substr(0, 40)); }

/// Appends the numbers of a line and returns how many they are.
int64_t append_line(std::string_view line, const std::string& where, std::vector<float>& values) {
  int64_t columns = 0;
  for (bool more = true; more;) {
    more = line.find(',') != std::string_view::npos;
    const std::string_view field = take_until(line, ',');
    const std::optional<float> value = csv_number(field);
    ++columns;
    if (!value || std::isnan(*value)) {
      const bool separates = field.find_first_of(";\t") != std::string_view::npos;
      fail("{}, column {}: got \"{}\", expected a finite number{}", where, columns, shown(field),
           separates ? ": commas separate fields" : "");
    }
    if (std::isinf(*value)) {
      fail("{}, column {}: got \"{}\", expected a finite number of float32, at most {} in magnitude", where,
           columns, shown(field), std::numeric_limits<float>::max());
    }
    values.push_back(*value);
  }
  return columns;
}

}  // namespace

Tensor read_csv(const std::filesystem::path& path) {
  const std::string text = read_text_file(path);
  std::string_view rest = text;
  std::vector<float> values;
  int64_t rows = 0;
  int64_t columns = 0;
  for (int64_t line_number = 1; !rest.empty(); ++line_number) {
    std::string_view line = take_until(rest, '\n');
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || (line_number == 1 && is_header(line))) continue;
    const std::string where = fmt::format("{}, line {}", path.string(), line_number);
    const int64_t found = append_line(line, where, values);
    if (rows > 0 && found != columns) fail("{}: got {} fields, expected {}", where, found, columns);
    columns = found;
    ++rows;
  }
  if (rows == 0) fail("{}: holds no line of numbers", path.string());
  return Tensor::from<float>({rows, columns}, values);
}

}  // namespace detent
