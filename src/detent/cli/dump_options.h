#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "detent/core/fields.h"

namespace detent {

enum class DumpAs { kValues, kIntegers };
constexpr std::array<const char*, 2> enum_names(DumpAs) { return {"values", "integers"}; }

/// What `detent test` writes of what happens inside of the network.
struct DumpOptions {
  std::optional<std::string> folder;
  std::vector<std::string> nodes;
  int64_t samples = 16;
  DumpAs as = DumpAs::kValues;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("dump", self.folder,
          "test: folder for logits, labels, predictions and the results of chosen nodes, each an .npy file; "
          "index.json says what is what");
    visit("dump_nodes", self.nodes,
          "test: regular expressions for the names of those nodes, '.*' for all of them");
    visit("dump_samples", self.samples, "test: as many of the first samples", Between{1, 1e9});
    visit("dump_as", self.as,
          "test: results of nodes as real values, or, where a node has them, as integers with scale and zero "
          "point in index.json");
  }
};

}  // namespace detent
