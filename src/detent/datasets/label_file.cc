#include "detent/datasets/sample_readers.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "detent/core/error.h"
#include "detent/core/log.h"
#include "detent/core/text.h"
#include "detent/datasets/image.h"
#include "detent/files/file.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> cells_of(std::string_view line, char separator) {
  std::vector<std::string> cells;
  for (const std::string& part : text_parts(line, separator)) {
    std::string_view cell = part;
    while (!cell.empty() && (cell.front() == ' ' || cell.front() == '"')) cell.remove_prefix(1);
    while (!cell.empty() && (cell.back() == ' ' || cell.back() == '"')) cell.remove_suffix(1);
    cells.emplace_back(cell);
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

/// By whatever name of the same folder.
fs::path normal(const fs::path& path) { return fs::absolute(path).lexically_normal(); }

void warn_of_missing(const fs::path& path, const fs::path& folder, size_t missing, size_t all) {
  warn_once(fmt::format("{}: {} files of {} are not in {}", path.string(), missing, all, folder.string()));
}

/// Images of the folder, and of those that labelled ones lie in, that the table does not name.
void warn_of_unlabelled(const fs::path& table, const fs::path& folder,
                        const std::vector<LabelledFile>& files) {
  std::set<fs::path> labelled;
  std::set<fs::path> folders = {folder.lexically_normal()};
  for (const LabelledFile& file : files) {
    labelled.insert(normal(file.path));
    folders.insert(file.path.lexically_normal().parent_path());
  }
  std::map<fs::path, fs::path> others;  // by `normal`
  for (const fs::path& place : folders) {
    std::error_code unreadable;
    for (const fs::directory_entry& entry : fs::directory_iterator(place, unreadable)) {
      if (is_image_name(entry.path()) && !labelled.contains(normal(entry.path())))
        others.emplace(normal(entry.path()), entry.path());
    }
  }
  if (others.empty()) return;
  warn_once(fmt::format("{}: names no class of {} images, which are left out; the first is {}",
                        table.string(), others.size(), others.begin()->second.string()));
}

}  // namespace

std::vector<LabelledFile> read_label_file(const fs::path& path, const fs::path& folder) {
  constexpr uint64_t kMostBytes = uint64_t{1} << 30;
  const std::string text = read_text_file(path, kMostBytes);
  const char separator = text.substr(0, text.find('\n')).find('\t') != std::string::npos ? '\t' : ',';
  std::vector<LabelledFile> files;
  std::map<fs::path, size_t> lines;  // of the files
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
      if (cells.size() != 2 || !class_number(cells[1])) {
        fail("{}: got \"{}\", expected a headline with the columns file and class, or a file and its number",
             where, printable_line(line.substr(0, 60)));
      }
      columns = Columns();
    }
    if (cells.size() <= std::max(columns->file, columns->label))
      fail("{}: {} columns are too few", where, cells.size());
    const auto label = class_number(cells[columns->label]);
    if (!label) fail("{}: got the class \"{}\", expected a number from 0 on", where, cells[columns->label]);
    if (auto file = found(cells[columns->file], folder, path)) {
      const auto [first, is_new] = lines.emplace(normal(*file), number);
      if (!is_new) fail("{}: names {} again, after line {}", where, file->string(), first->second);
      files.push_back({std::move(*file), *label});
    } else {
      ++missing;
    }
  }
  if (files.empty()) fail("{}: names no file that is in {}", path.string(), folder.string());
  if (missing > 0) warn_of_missing(path, folder, missing, missing + files.size());
  warn_of_unlabelled(path, folder, files);
  return files;
}

}  // namespace detent
