#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace detent {

/// The folder on the machine that runs the tests that has all of `files`: $DETENT_DATA or ../shared/data; or
/// nothing.
inline std::optional<std::filesystem::path> published_data(const std::vector<std::string>& files) {
  const char* data = std::getenv("DETENT_DATA");
  for (const std::filesystem::path root :
       {data != nullptr ? data : "", DETENT_SOURCE_DIR "/../shared/data"}) {
    const auto has = [&](const std::string& file) { return std::filesystem::exists(root / file); };
    if (std::ranges::all_of(files, has)) return root;
  }
  return std::nullopt;
}

}  // namespace detent
