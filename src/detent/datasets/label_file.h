#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace detent {

struct LabelledFile {
  std::filesystem::path path;
  int64_t label = 0;
};

/// A table of files and their classes, .tsv or .csv: of a headline with the columns "file" and "class" (or
/// "label" or "index"), whatever others there are; or of two columns, without a headline. Classes are numbers
/// from 0 on. Files are looked for in `folder`, in its folder "images" and beside the table. Throws Error
/// naming the line.
std::vector<LabelledFile> read_label_file(const std::filesystem::path& path,
                                          const std::filesystem::path& folder);

}  // namespace detent
