#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include "detent/search/report.h"
#include "detent/search/study.h"
#include "detent/search/winners.h"

namespace detent {

/// The files that a search leaves. Those of new points are written before the report that names them, and
/// those that it no longer names are removed after it, so that a killed process leaves a report whose files
/// exist.
class SearchFiles {
 public:
  SearchFiles(std::filesystem::path folder, const SearchOptions& options, const Quality& reference);

  /// At once, or, unless `must`, where some seconds have passed since.
  void write(const Study& study, const Sensitivities& found, Winners& winners, const std::string& state,
             bool must);
  std::filesystem::path folder() const { return folder_; }

 private:
  void write_point(const Study& study, const Trial& trial, Winners& winners);
  void remove_others(const SearchReport& report) const;

  std::filesystem::path folder_;
  std::string strategy_;
  size_t most_;
  Quality reference_;
  std::string best_;  // the point that best.mz is
  std::chrono::steady_clock::time_point next_;
};

}  // namespace detent
