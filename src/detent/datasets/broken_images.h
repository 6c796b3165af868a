#pragma once

#include <filesystem>
#include <vector>

namespace detent {

/// Indices of the images that cannot be read, ascending: each is read once per process, and a warning names
/// each broken one.
std::vector<size_t> broken_images(const std::vector<std::filesystem::path>& images);
/// Number found so far.
size_t broken_image_count();

}  // namespace detent
