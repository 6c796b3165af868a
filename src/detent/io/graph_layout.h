#pragma once

#include <string>
#include <utility>
#include <vector>

#include "detent/io/safetensors.h"

namespace detent::graph_layout {

inline constexpr const char* kFormat = "detent.graph";
inline constexpr int kVersion = 1;

/// What the file's "crc32" says, 8 hexadecimal digits: see graph_file.h.
std::string checksum(const std::string& graph_json,
                     const std::vector<std::pair<std::string, Tensor>>& tensors);

}  // namespace detent::graph_layout
