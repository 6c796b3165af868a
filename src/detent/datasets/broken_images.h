#pragma once

#include <filesystem>
#include <vector>

namespace detent {

/// Which of these images cannot be read, by index, in order: each is read once in a process, and one that is
/// broken named in a warning.
std::vector<size_t> broken_images(const std::vector<std::filesystem::path>& images);
/// How many were found so far.
size_t broken_image_count();

}  // namespace detent
