#include "detent/datasets/label_file.h"

#include <algorithm>
#include <charconv>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "detent/core/error.h"
#include "detent/core/log.h"
#include "detent/io/file.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> cells_of(std::string_view line, char separator) {
  std::vector<std::string> cells;
  for (size_t begin = 0; begin <= line.size();) {
    const size_t end = std::min(line.find(separator, begin), line.size());
    std::string_view cell = line.substr(begin, end - begin);
    while (!cell.empty() && (cell.front() == ' ' || cell.front() == '"')) cell.remove_prefix(1);
    while (!cell.empty() && (cell.back() == ' ' || cell.back() == '"')) cell.remove_suffix(1);
    cells.emplace_back(cell);
    begin = end + 1;
  }
  return cells;
}

std::optional<int64_t> class_number(const std::string& text) {
  constexpr int64_t kMostClasses = 1 << 24;
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool fits =
      error == std::errc() && end == text.data() + text.size() && number >= 0 && number < kMostClasses;
  return fits ? std::optional(number) : std::nullopt;
}

struct Columns {
  size_t file = 0;
  size_t label = 1;
};

/// The columns that a headline names; nothing where the line is none.
std::optional<Columns> columns_of(const std::vector<std::string>& cells) {
  const auto file = std::ranges::find(cells, "file");
  if (file == cells.end()) return std::nullopt;
  for (const char* name : {"class", "label", "index"}) {
    const auto label = std::ranges::find(cells, name);
    if (label != cells.end())
      return Columns{static_cast<size_t>(file - cells.begin()), static_cast<size_t>(label - cells.begin())};
  }
  return std::nullopt;
}

std::optional<fs::path> found(const std::string& name, const fs::path& folder, const fs::path& table) {
  for (const fs::path& place : {folder / name, folder / "images" / name, table.parent_path() / name}) {
    if (fs::is_regular_file(place)) return place;
  }
  return std::nullopt;
}

/// Once in a process: each split reads the same file.
void warn_of_missing(const std::filesystem::path& path, const std::filesystem::path& folder, size_t missing,
                     size_t all) {
  static std::mutex mutex;
  static std::set<std::pair<std::filesystem::path, std::filesystem::path>> warned;
  const std::scoped_lock lock(mutex);
  if (warned.emplace(path, folder).second)
    spdlog::warn("{}: {} files of {} are not in {}", path.string(), missing, all, folder.string());
}

}  // namespace

std::vector<LabelledFile> read_label_file(const fs::path& path, const fs::path& folder) {
  constexpr uint64_t kMostBytes = uint64_t{1} << 30;
  const std::string text = read_file(path, kMostBytes);
  const char separator = text.substr(0, text.find('\n')).find('\t') != std::string::npos ? '\t' : ',';
  std::vector<LabelledFile> files;
  std::optional<Columns> columns;
  size_t number = 0;
  size_t missing = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line(text.data() + begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    begin = end + 1;
    ++number;
    if (line.empty()) continue;
    const std::vector<std::string> cells = cells_of(line, separator);
    const std::string where = fmt::format("{}:{}", path.string(), number);
    if (!columns) {
      columns = columns_of(cells);
      if (columns) continue;
      if (cells.size() != 2) fail("{}: expected a headline with the columns file and class", where);
      columns = Columns();
    }
    if (cells.size() <= std::max(columns->file, columns->label))
      fail("{}: {} columns are too few", where, cells.size());
    const auto label = class_number(cells[columns->label]);
    if (!label) fail("{}: got the class \"{}\", expected a number from 0 on", where, cells[columns->label]);
    if (auto file = found(cells[columns->file], folder, path)) {
      files.push_back({std::move(*file), *label});
    } else {
      ++missing;
    }
  }
  if (files.empty()) fail("{}: names no file that is in {}", path.string(), folder.string());
  if (missing > 0) warn_of_missing(path, folder, missing, missing + files.size());
  return files;
}

}  // namespace detent
