#include "detent/search/journal.h"

#include <cmath>
#include <span>

#include <fmt/format.h>

#include "detent/core/error.h"
#include "detent/files/file.h"
#include "detent/files/json.h"

namespace detent {
namespace {

std::string line_of(const std::string& key, const std::vector<double>& numbers) {
  const Table entry{{"key", key}, {"numbers", List(numbers.begin(), numbers.end())}};
  return json_text(entry, JsonLayout::kOneLine) + "\n";
}

/// The lines that are whole: a process that is killed may leave a part of one.
std::string whole_lines(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return "";
  std::string text = read_file(path);
  const size_t end = text.rfind('\n');
  text.resize(end == std::string::npos ? 0 : end + 1);
  return text;
}

std::string shared_text(const std::string& text, ProcessGroup& group) {
  const auto given = group.all_gather(std::as_bytes(std::span(text)));
  return {reinterpret_cast<const char*>(given.front().data()), given.front().size()};
}

}  // namespace

Journal::Journal(const std::filesystem::path& path, bool keeps, ProcessGroup& group) : path_(path) {
  const std::string kept = group.is_first() && keeps ? whole_lines(path) : "";
  const std::string text = shared_text(kept, group);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    const Value value = parse_json(text.substr(begin, end - begin), path.string());
    const auto* entry = value.get_if<Table>();
    const Value* key = entry == nullptr ? nullptr : entry->find("key");
    const Value* numbers = entry == nullptr ? nullptr : entry->find("numbers");
    if (key == nullptr || numbers == nullptr || !key->is<std::string>() || !numbers->is<List>())
      fail("{}: a line has no \"key\" and \"numbers\"", path.string());
    std::vector<double>& values = entries_[*key->get_if<std::string>()];
    for (const Value& number : *numbers->get_if<List>()) {
      double scratch = 0;
      const double* found = number.number(scratch);
      if (found == nullptr || std::isnan(*found))
        fail("{}: got {}, expected a number", path.string(), value_text(number));
      values.push_back(*found);
    }
    begin = end + 1;
  }
  if (group.is_first()) file_.emplace(path, kept.size());
}

std::string Journal::place(const std::string& key) const {
  return fmt::format("{}: \"{}\"", path_.string(), key);
}

void Journal::check_count(const std::string& key, const std::vector<double>& numbers, size_t count) const {
  if (numbers.size() != count) fail("{}: got {} numbers, expected {}", place(key), numbers.size(), count);
}

const std::vector<double>* Journal::find(const std::string& key, size_t count) const {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return nullptr;
  check_count(key, found->second, count);
  return &found->second;
}

std::vector<std::pair<std::string, std::vector<double>>> Journal::with_prefix(const std::string& prefix,
                                                                              size_t count) const {
  std::vector<std::pair<std::string, std::vector<double>>> found;
  for (auto entry = entries_.lower_bound(prefix); entry != entries_.end() && entry->first.starts_with(prefix);
       ++entry) {
    check_count(entry->first, entry->second, count);
    found.emplace_back(entry->first.substr(prefix.size()), entry->second);
  }
  return found;
}

void Journal::add(const std::string& key, const std::vector<double>& numbers) {
  if (!entries_.emplace(key, numbers).second || !file_) return;
  file_->append(line_of(key, numbers));
}

}  // namespace detent
