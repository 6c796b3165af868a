#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "detent/core/name_pattern.h"
#include "detent/core/value.h"
#include "detent/graph/graph.h"
#include "detent/passes/post_training/code_groups.h"
#include "detent/passes/transform/operand_format.h"

namespace detent {

/// Widths or formats of matching nodes.
struct NodeWidths {
  struct Codes {
    int width = 8;
    std::optional<bool> is_signed = std::nullopt;    // none: as those of the other nodes
    std::optional<QuantSpec> format = std::nullopt;  // instead of integers
    bool is_float = false;                           // instead of both

    OperandFormat like(const OperandFormat& others) const {
      if (is_float) return {.is_float = true};
      if (format) return {.integer = {}, .other = format};
      return {{is_signed.value_or(others.integer.is_signed), width}};
    }
    double bits() const { return like({}).bits(); }
    bool operator==(const Codes&) const = default;
  };

  std::string pattern;               // a regular expression for the whole name
  std::optional<Codes> weights;      // none: as if there were no entry
  std::optional<Codes> activations;  // that the node takes in; none: likewise
  bool operator==(const NodeWidths&) const = default;
};

/// Widths or number formats of single nodes, by their names; of several entries that match a node the first
/// counts. As text
///
///     layer1.*=4,fc=8/8,add=/12,conv1=int6/uint8,conv2=nvfp4/fp8_e4m3fn
///
/// that is PATTERN=WEIGHTS/ACTIVATIONS, one of the two or both (commas inside of brackets belong to the
/// pattern), in a configuration file also as a table
///
///     [passes.static_quantize.bits]
///     'layer1.*' = 4
///     fc = "8/8"
///     add = { activations = 12 }
///     conv2 = { weights = "mx:element=e2m1,block_size=16" }
struct NodeBits {
  std::vector<NodeWidths> entries;

  static std::string field_type() { return "PATTERN=WEIGHTS/ACTIVATIONS,..."; }
  /// The text, which `from_value` reads; NA without entries.
  Value to_value() const;
  static NodeBits from_value(const Value& value, const std::string& where);
  bool operator==(const NodeBits&) const = default;
};

/// Nodes of a network and of the bodies of its loops, by what widths are to them.
struct NodesWithWidths {
  std::vector<std::string> names = {};  // of all
  std::set<std::string, std::less<>> in_float = {};
  std::set<std::string, std::less<>> taking = {};    // codes, or rows of them
  std::set<std::string, std::less<>> weighted = {};  // with weights that are codes

  void add(const Graph& graph, const CodePlan& plan, const std::string& prefix);
  void add_in_float(const Graph& graph, const std::string& prefix);
};

class NodeBitsMatcher {
 public:
  using Warning = std::function<void(const std::string&)>;

  /// The entries of the keys "formats" and "bits", in this order. Throws Error, beginning with `where`, on a
  /// pattern that is no regular expression. `prefix` stands before the names that `find` gets.
  NodeBitsMatcher(const NodeBits& formats, const NodeBits& bits, const std::string& where,
                  std::string prefix = "");

  const std::string& prefix() const { return prefix_; }
  /// The first matching entry, or nullptr.
  const NodeWidths* find(const std::string& node) const;

  /// Throws Error naming an entry that no node can take its widths from: it matches none (then the nearest is
  /// named), only such as do not compute on codes, or, with weights alone, as have none. Warns of one that
  /// matches only nodes that earlier entries match or that are kept in float.
  void check_all_used(const NodesWithWidths& nodes, const Warning& warn) const;

 private:
  struct Entry {
    NodeWidths widths;
    NamePattern pattern;
    std::string where;
  };

  void check_used(const Entry& entry, const NodesWithWidths& nodes, const Warning& warn) const;

  std::vector<Entry> entries_;
  std::string prefix_;
};

}  // namespace detent
