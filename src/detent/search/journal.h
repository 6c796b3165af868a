#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "detent/core/process_group.h"
#include "detent/files/append_file.h"

namespace detent {

/// The measurements of a search by key: a file of JSON lines that grows by whole lines. A resumed search
/// asks for the same things in the same order and gets them from here, so that it goes on as if it had
/// never stopped.
class Journal {
 public:
  /// The first worker has the file, of which all complete lines are kept; the others are given what it holds.
  /// `keeps` false: the file begins anew. Throws Error where a line before the last is damaged.
  Journal(const std::filesystem::path& path, bool keeps, ProcessGroup& group);

  /// The entry, which has `count` numbers; throws Error naming the file where it has others.
  const std::vector<double>* find(const std::string& key, size_t count) const;
  /// Adds the entry unless there is one with this key.
  void add(const std::string& key, const std::vector<double>& numbers);
  /// Entries whose keys have this prefix, without it.
  std::vector<std::pair<std::string, std::vector<double>>> with_prefix(const std::string& prefix,
                                                                       size_t count) const;
  /// File and key, for messages.
  std::string place(const std::string& key) const;

 private:
  void check_count(const std::string& key, const std::vector<double>& numbers, size_t count) const;

  std::filesystem::path path_;
  std::map<std::string, std::vector<double>, std::less<>> entries_;
  std::optional<AppendFile> file_;
};

}  // namespace detent
