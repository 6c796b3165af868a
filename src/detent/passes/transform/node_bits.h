#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "detent/core/name_pattern.h"
#include "detent/core/value.h"
#include "detent/graph/graph.h"
#include "detent/passes/transform/code_groups.h"
#include "detent/passes/transform/integer_type.h"

namespace detent {

/// Codes of the nodes whose names match.
struct NodeWidths {
  struct Codes {
    int width = 8;
    std::optional<bool> is_signed;  // none: as those of the other nodes

    IntegerType like(IntegerType others) const { return {is_signed.value_or(others.is_signed), width}; }
    bool operator==(const Codes&) const = default;
  };

  std::string pattern;               // a regular expression for the whole name
  std::optional<Codes> weights;      // none: as if there were no entry
  std::optional<Codes> activations;  // that the node takes in; none: likewise
  bool operator==(const NodeWidths&) const = default;
};

/// Widths of single nodes, by their names; of several entries that match a node the first counts. As text
///
///     layer1.*=4,fc=8/8,add=/12,conv1=int6/uint8        PATTERN=WEIGHTS/ACTIVATIONS, one of the two or both
///
/// (commas inside of brackets belong to the pattern), in a configuration file also as a table
///
///     [passes.static_quantize.bits]
///     'layer1.*' = 4
///     fc = "8/8"
///     add = { activations = 12 }
struct NodeBits {
  std::vector<NodeWidths> entries;

  static std::string field_type() { return "PATTERN=WEIGHTS/ACTIVATIONS,..."; }
  /// The text, which `from_value` reads; NA without entries.
  Value to_value() const;
  static NodeBits from_value(const Value& value, const std::string& where);
  bool operator==(const NodeBits&) const = default;
};

class NodeBitsMatcher {
 public:
  using Warning = std::function<void(const std::string&)>;

  /// Throws Error, beginning with `where`, on a pattern that is no regular expression.
  NodeBitsMatcher(const NodeBits& bits, std::string where);

  /// The first entry that matches, or nullptr.
  const NodeWidths* find(const std::string& node) const;

  /// Throws Error naming an entry that no node can take its widths from: it matches none (then the nearest is
  /// named), only such as do not compute on codes, or, with weights alone, as have none. Warns of one that
  /// matches only nodes that earlier entries match or that are kept in float.
  void check_all_used(const Graph& graph, const CodePlan& plan, const Warning& warn) const;

 private:
  void check_used(size_t index, const Graph& graph, const CodePlan& plan, const Warning& warn) const;

  const NodeBits& bits_;
  std::string where_;
  std::vector<NamePattern> patterns_;
};

}  // namespace detent
