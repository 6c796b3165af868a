#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "detent/graph/executor.h"
#include "detent/inference/reference_step.h"

namespace detent {

/// A value that an observation shows as an operand of a node.
struct ShownValue {
  const Node* node;
  std::string operand;
  std::string value;                     // its name, among the plan's
  std::optional<CodeType> type = {};     // shown as codes of this have it
  std::optional<size_t> unrounded = {};  // instead: this result of the step, before it is rounded to its type
};

/// Values of a plan that an observation shows, step by step; nothing where it sees nothing.
class ShownValues {
 public:
  ShownValues(const ReferencePlan& plan, const Observation& observation);

  /// Before the step runs, and after it.
  const std::vector<ShownValue>& inputs_of(size_t step) const { return inputs_[step]; }
  const std::vector<ShownValue>& results_of(size_t step) const { return results_[step]; }
  /// Whether the value has to be there by itself, so that no kernel may compute it on the way.
  bool needs(const std::string& value) const { return needed_.contains(value); }
  /// It has another consumer.
  void need(const std::string& value) { needed_.insert(value); }

 private:
  void add_operands(const ReferenceStep& step, size_t index);
  void add_rounding(const ReferenceStep& step, size_t index);
  void add(std::vector<ShownValue>& to, ShownValue shown);
  void need_inputs(const Node& node);

  const ReferencePlan& plan_;
  const Observation& observation_;
  bool before_;
  std::vector<std::vector<ShownValue>> inputs_;
  std::vector<std::vector<ShownValue>> results_;
  std::set<std::string, std::less<>> needed_;
};

}  // namespace detent
