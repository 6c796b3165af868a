#pragma once

#include <string>
#include <utility>
#include <vector>

#include "detent/core/value.h"
#include "detent/files/safetensors.h"
#include "detent/graph/quantizer.h"
#include "detent/graph/tensor_type.h"

namespace detent::graph_layout {

inline constexpr const char* kFormat = "detent.graph";
/// Version 1 held one checksum, `checksum`, under "crc32", and all statistics as JSON. Version 2 had a
/// quantization spec at each operand, shapes without dtypes, and metadata that follow from the graph. Version
/// 3 has quantizers that operands share, packed parameters, and tensors in place of long lists in formats; so
/// that it is small, "graph" of a file with packed parameters is not in the header but, compressed by gzip,
/// the tensor kGraphTensor. There, learned scales were parameters of nodes; in version 4 of their quantizers.
inline constexpr int kVersion = 4;

/// Brings the JSON of versions 1 and 2 into the form of version 3. What is damaged there is left for the
/// reader to name.
void upgrade_to_third(Value& graph);
/// The JSON of version 3 into the form of version 4, likewise.
void upgrade_to_fourth(Value& graph);

inline constexpr const char* kGraphTensor = "graph.json.gz";
/// As a header may have.
inline constexpr uint64_t kMostGraphBytes = 100'000'000;

/// The value of "crc32" in files of version 1, 8 hexadecimal digits: of `graph` and of every tensor's name,
/// dtype, shape and bytes, in the order of the header.
std::string checksum(const std::string& graph_json,
                     const std::vector<std::pair<std::string, Tensor>>& tensors);

/// Lists of more numbers stand in a tensor instead of the JSON, which writes
inline constexpr size_t kMostNumbersAsText = 256;
/// {"detent.tensor": name} in their place.
inline constexpr const char* kTensorKey = "detent.tensor";

}  // namespace detent::graph_layout

namespace detent {

/// Earlier files of version 4 hold settings of a quantizer as tensors among its parameters: `rounding`,
/// `folds_norm` (numbers of enumerators) and `collected` (an observer). Makes them what they are. Throws
/// Error, beginning with `where`, on numbers that stand for nothing.
void take_former_settings(Quantizer& quantizer, const std::string& where);

}  // namespace detent
