#include "detent/cli/network/settings.h"

#include <vector>

#include <fmt/format.h>

namespace detent {
namespace {

std::string difference_in(const std::string& path, const Table& saved, const Table& now) {
  std::vector<std::string> keys = now.keys();
  for (const std::string& key : saved.keys()) {
    if (!now.contains(key)) keys.push_back(key);
  }
  for (const std::string& key : keys) {
    const Value before = saved.contains(key) ? *saved.find(key) : Value();
    const Value given = now.contains(key) ? *now.find(key) : Value();
    if (before.is<Table>() && given.is<Table>()) {
      const std::string found =
          difference_in(path + key + ".", *before.get_if<Table>(), *given.get_if<Table>());
      if (!found.empty()) return found;
    } else if (before != given) {
      return fmt::format("{}{} = {}, got {}", path, key, value_text(before), value_text(given));
    }
  }
  return "";
}

}  // namespace

std::string settings_difference(const Table& saved, const Table& now) {
  return difference_in("", saved, now);
}

}  // namespace detent
