#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "detent/formats/quant_spec.h"
#include "detent/graph/graph.h"
#include "detent/passes/post_training/code_groups.h"
#include "detent/search/options.h"

namespace detent {

/// One of the formats that an operand may have.
struct ChoiceFormat {
  std::string text;               // as it was given: "int4", "float"
  std::optional<QuantSpec> spec;  // none: float
  int64_t bits = 0;               // that storing the operand takes
};

/// An operand with the formats to choose from, the smallest first.
struct Choice {
  size_t node = 0;  // position in the graph
  std::string name;
  std::string operand;  // kWeightOperand, or kInputOperand for all inputs that the node reads as codes
  std::vector<ChoiceFormat> formats;
};

/// The parameter that a choice of kWeightOperand is for: a layer's weight, or the value of a constant, which
/// a recurrent layer reads.
std::string_view weight_parameter(const Node& node);

/// For each choice the index of the chosen format.
using Assignment = std::vector<int>;

struct SearchSpace {
  std::vector<Choice> choices;  // in execution order; of a node, the weight first

  /// The number of assignments, as far as a double holds it.
  double size() const;
  /// Every operand with its smallest, or its largest, formats.
  Assignment smallest() const { return Assignment(choices.size(), 0); }
  Assignment largest() const;
  /// Every choice of that operand takes the format with this text, or, where it has none such, the nearest in
  /// bits; other operands take their largest.
  Assignment uniform(const std::string& operand, const ChoiceFormat& format) const;
  /// Assignments with one format for all weights, smallest first; none where no weight may be chosen.
  std::vector<Assignment> uniform_weights() const;
};

/// The choices that `options` leave for a network. Throws Error, beginning with `where`, on patterns that
/// match nothing, on formats that an operand cannot have, and where nothing is to be chosen.
SearchSpace make_search_space(const Graph& graph, const CodePlan& plan, const SearchOptions& options,
                              const std::string& where);

}  // namespace detent
