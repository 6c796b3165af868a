#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "detent/cli/network/study_folder.h"
#include "detent/core/value.h"

namespace detent::python {

/// What a search and a comparison are called with beside their options.
struct StudyCall {
  int64_t seed = 0;
  int64_t batch_size = 0;
  int64_t num_workers = 0;
  std::string folder;  // "": a temporary one
  bool resume = false;
  bool overwrite = false;
  std::string report;  // a page; "": none
};

/// The folder of the call, locked while it lives; nothing where the study is to leave no files. `command`:
/// the one that does the same.
std::optional<StudyFolder> claimed_folder(const StudyCall& call, const std::string& command,
                                          const StudyFiles& files, const Table& settings);

}  // namespace detent::python
