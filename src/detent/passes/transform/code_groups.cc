#include "detent/passes/transform/code_groups.h"

#include <algorithm>
#include <map>

#include "detent/graph/operators.h"
#include "detent/integer/node_form.h"
#include "detent/integer/unary_functions.h"

namespace detent {
namespace {

enum class Role { kSums, kComputes, kJoins, kPasses, kClamps, kStructure, kFloat };

bool reads_two_tensors(const Node& node) {
  return std::ranges::none_of(node.inputs, &NodeInput::is_constant);
}

Role role_of(const Node& node) {
  const bool structural = node.mase_type == MaseType::kPlaceholder || node.op == "output" ||
                          node.op == "size" || node.op == "get_attr";
  if (structural) return Role::kStructure;
  if (has_sum_form(node.op)) return Role::kSums;
  if (node.op == "cat") return Role::kJoins;
  if (node.op == "relu6") return Role::kClamps;
  if (moves_codes(node)) return Role::kPasses;
  if (has_pair_form(node.op)) return reads_two_tensors(node) ? Role::kComputes : Role::kFloat;
  if (has_average_form(node.op) || unary_function(node)) return Role::kComputes;
  return Role::kFloat;
}

bool computes(Role role) { return role == Role::kSums || role == Role::kComputes || role == Role::kJoins; }

}  // namespace

CodePlan plan_codes(const Graph& graph, const std::set<std::string, std::less<>>& kept_in_float) {
  CodePlan plan;
  std::map<std::string, std::string, std::less<>> root_of;
  std::map<std::string, CodeGroup, std::less<>> groups;
  std::vector<std::string> order;
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    const Role role = kept_in_float.contains(node.name) ? Role::kFloat : role_of(node);
    const bool passes = role == Role::kPasses || role == Role::kClamps;
    root_of[node.name] = passes ? root_of.at(node.inputs[0].node) : node.name;
    if (role == Role::kClamps) {
      CodeGroup& clamped = groups[root_of[node.name]];
      clamped.clamps.push_back(i);
      clamped.root_needs_type = true;
    }
    if (role == Role::kSums) plan.weighted.push_back(i);
    if (role == Role::kFloat) plan.in_float.push_back(node.name);
    if (passes) continue;
    CodeGroup& own = groups[node.name];
    own.root = node.name;
    own.root_needs_type = role == Role::kComputes || role == Role::kJoins;
    order.push_back(node.name);
    if (!computes(role)) continue;
    for (size_t input = 0; input < node.inputs.size(); ++input) {
      if (node.inputs[input].is_constant()) continue;
      const std::string& giver = node.inputs[input].node;
      groups[root_of.at(giver)].reads.push_back({i, input, value_name(node.inputs[input])});
    }
  }
  for (const std::string& root : order) {
    CodeGroup& group = groups.at(root);
    if (!group.reads.empty() || group.root_needs_type) plan.groups.push_back(std::move(group));
  }
  return plan;
}

}  // namespace detent
