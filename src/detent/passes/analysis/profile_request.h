#pragma once

#include <string>
#include <vector>

#include "detent/core/fields.h"
#include "detent/graph/graph.h"
#include "detent/passes/pass.h"
#include "detent/statistics/collector.h"

namespace detent {

enum class ProfileBy { kType, kName, kRegexName };
constexpr std::array<const char*, 3> enum_names(ProfileBy) { return {"type", "name", "regex_name"}; }

/// The plain keys of [passes.profile_statistics].
struct ProfileOptions {
  ProfileBy by = ProfileBy::kType;
  std::vector<std::string> target_weight_nodes;
  std::vector<std::string> target_activation_nodes;
  bool profile_output_activation = false;
  int64_t num_samples = 32;
  bool exact_num_samples = false;
  bool allow_uncovered = false;
  ObservedValues observed_values = ObservedValues::kBeforeQuantization;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("by", self.by, "targets are operators, names or regular expressions");
    visit("target_weight_nodes", self.target_weight_nodes, "nodes whose parameters to profile");
    visit("target_activation_nodes", self.target_activation_nodes, "nodes whose inputs to profile");
    visit("profile_output_activation", self.profile_output_activation, "profile outputs too");
    visit("num_samples", self.num_samples, "samples to run, rounded up to whole batches", Between{1, 1e15});
    visit("exact_num_samples", self.exact_num_samples, "run exactly num_samples");
    visit("allow_uncovered", self.allow_uncovered, "warn about operands without values instead of failing");
    visit("observed_values", self.observed_values, "quantized operands: values before or after rounding");
  }
};

/// The whole table: statistic name -> its options, beside the plain keys.
struct ProfileRequest {
  ProfileOptions options;
  Table weight_statistics;
  Table activation_statistics;

  static ProfileRequest parse(const Table& table, const std::string& where);
  static std::vector<FieldDescription> describe();
  /// Statistics and regular expressions.
  void check(const std::string& where) const;
  void check_graph(const Graph& graph, const EarlierPasses& earlier, const std::string& where) const;
};

/// One operand and its collector.
struct Probe {
  size_t node = 0;
  std::string operand;  // "weight", "data_in_0", "data_out_0"
  Collector collector;
};

/// Probes of the parameters, inputs and outputs that the request selects. A target that selects no node is
/// an error, or, where it is an operator that this network does not have, a warning. Throws Error, too, when
/// there is something to profile but no statistic.
std::vector<Probe> weight_probes(const Graph& graph, const ProfileRequest& request,
                                 const PassContext& context);
std::vector<Probe> activation_probes(const Graph& graph, const ProfileRequest& request,
                                     const PassContext& context);

}  // namespace detent
