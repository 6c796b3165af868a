#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "detent/engine/packed_sums.h"
#include "detent/engine/shown_values.h"
#include "detent/graph/operators.h"
#include "detent/inference/reference_step.h"

namespace detent {

/// Consumers of a value, the output node included.
using ValueReaders = std::map<std::string, std::vector<size_t>, std::less<>>;
ValueReaders readers_of(std::span<const ReferenceStep> steps);

/// A layer and the nodes that its kernel computes on its sums: rectifiers, tables, additions; on those of
/// blocks, what cuts codes. `steps` are in
/// order; the kernel runs where the last of them stands.
struct FusedLayer {
  std::vector<size_t> steps;
  CodeType type;                   // of the result
  std::optional<size_t> pad = {};  // puts zeros around what the layer reads
};

/// Epilogues that layers among `layers` (whose kernels can do so) are fused with, by the last step; what
/// `shown` needs is no sum on the way.
std::map<size_t, FusedLayer> fused_layers(std::span<const ReferenceStep> steps,
                                          std::span<const size_t> layers, const ValueTypes& values,
                                          const ShownValues& shown);

/// Bytes to bytes of a node that has a table of codes of at most 8 bits; of its input type.
std::optional<std::vector<uint8_t>> byte_table(const ReferenceStep& step);
/// The bytes between which a table of one type leaves all as they are, where it does nothing else than to cut
/// those outside.
std::optional<std::pair<uint8_t, uint8_t>> cut_of(const ReferenceStep& step);
/// From codes of one type to those of another, by value.
std::vector<uint8_t> conversion_table(const CodeType& from, const CodeType& to);
/// Whether the node adds 8-bit codes in float.
bool adds_bytes(const ReferenceStep& step);
/// Whether the node is a rectifier that leaves codes of `type` in that type.
bool rectifies_bytes(const ReferenceStep& step, const CodeType& type);

}  // namespace detent
