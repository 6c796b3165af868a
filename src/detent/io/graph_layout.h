#pragma once

#include <string>
#include <utility>
#include <vector>

#include "detent/io/safetensors.h"

namespace detent::graph_layout {

inline constexpr const char* kFormat = "detent.graph";
/// Version 1 held all metadata as JSON and one checksum, `checksum`, under "crc32". Version 3 may have packed
/// parameters, and tensors in place of the numbers of a format; so that it is small, "graph" is not in the
/// header but, compressed by gzip, the tensor kGraphTensor. A graph without either is written as version 2,
/// which older programs read.
inline constexpr int kVersion = 3;
inline constexpr int kVersionOfFloats = 2;

inline constexpr const char* kGraphTensor = "graph.json.gz";
/// As a header may have.
inline constexpr uint64_t kMostGraphBytes = 100'000'000;

/// What "crc32" says in files of version 1, 8 hexadecimal digits: of `graph` and of every tensor's name,
/// dtype, shape and bytes, in the order of the header.
std::string checksum(const std::string& graph_json,
                     const std::vector<std::pair<std::string, Tensor>>& tensors);

/// Lists of more numbers stand in a tensor instead of the JSON, which writes
inline constexpr size_t kMostNumbersAsText = 256;
/// {"detent.tensor": name} in their place.
inline constexpr const char* kTensorKey = "detent.tensor";

}  // namespace detent::graph_layout
