#include "detent/passes/qat/qat_presets.h"

#include <unordered_set>

#include "detent/core/error.h"
#include "detent/formats/groups/learned_scale.h"
#include "detent/graph/operators.h"
#include "detent/graph/owned_parameters.h"

namespace detent {
namespace {

void append_numbers(const Value& value, std::vector<double>& numbers) {
  if (const List* list = value.get_if<List>()) {
    for (const Value& element : *list) append_numbers(element, numbers);
    return;
  }
  double scratch = 0;
  if (const double* number = value.number(scratch)) numbers.push_back(*number);
}

/// Mean |x| of an activation as profile_statistics has found it, one or one for each kept position; empty
/// when it was not collected.
std::vector<double> profiled_means(const Node& node, const std::string& operand) {
  std::vector<double> means;
  const Table* statistics = node.statistics.find(operand);
  const Value* statistic = statistics == nullptr ? nullptr : statistics->find("abs_mean");
  const Table* result = statistic == nullptr ? nullptr : statistic->get_if<Table>();
  const Value* mean = result == nullptr ? nullptr : result->find("abs_mean");
  if (mean != nullptr) append_numbers(*mean, means);
  return means;
}

Tensor begin_scale(const Node& node, const std::string& operand, const QuantSpec& spec,
                   const ValueTypes& results, const std::string& where) {
  if (const Parameter* parameter = node.find_parameter(operand)) {
    return initial_scale(spec, parameter->tensor, where);
  }
  const Shape shape = operand_type(node, operand, results).shape;
  const std::vector<double> means = profiled_means(node, operand);
  if (means.empty()) return initial_scale(spec, shape, where);
  return initial_scale(spec, shape, means, where + ", statistic abs_mean");
}

/// A scale that is there already and has the right shape stays.
void place_scale(const Node& node, const std::string& operand, Quantizer& quantizer,
                 const ValueTypes& results, const std::string& where) {
  const QuantSpec& spec = quantizer.spec;
  if (spec.granularity == Granularity::kGroup && node.find_parameter(operand) == nullptr) {
    fail(
        "{}: got scale_rule = \"learned\" with granularity = \"group\", which is for parameters: the groups "
        "of an activation are those of one batch",
        where);
  }
  const std::optional<ScaleParameter> kind = scale_parameter(quantizer);
  const Shape shape = scale_shape(spec, operand_type(node, operand, results).shape);
  if (kind && quantizer.find_parameter(scale_parameter_name(*kind))->tensor.shape() == shape) return;
  Tensor scale = begin_scale(node, operand, spec, results, where);
  quantizer = Quantizer(QuantSpec(spec));
  quantizer.parameters.emplace_back(owned_parameters(spec).front(), Parameter{std::move(scale), true});
}

}  // namespace

void place_learned_scales(Graph& graph, const std::string& where) {
  const ValueTypes results = infer_shapes(graph);
  std::unordered_set<const Quantizer*> placed;
  for (Node& node : graph.nodes()) {
    for (auto& [operand, quantizer] : node.quantization) {
      if (!placed.insert(&*quantizer).second) continue;
      if (owned_parameters(quantizer->spec).empty()) {
        if (scale_parameter(*quantizer)) *quantizer = Quantizer(QuantSpec(quantizer->spec));
        continue;
      }
      place_scale(node, operand, *quantizer, results,
                  fmt::format("{}: node \"{}\", operand \"{}\"", where, node.name, operand));
    }
  }
}

}  // namespace detent
