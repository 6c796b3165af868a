#include "detent/training/quantizer_figures.h"

#include <algorithm>
#include <cmath>

#include "detent/formats/verbs.h"
#include "detent/graph/owned_parameters.h"

namespace detent {
namespace {

/// 0 where one of them is not above 0.
double mean_scale(const Quantizer& quantizer, ScaleParameter kind) {
  const Tensor& parameter = quantizer.find_parameter(scale_parameter_name(kind))->tensor;
  const double largest = largest_code_of(with_owned_fields(quantizer));
  double sum = 0;
  for (const float value : parameter.values<float>()) {
    const float scale = scale_of_parameter(kind, value, largest);
    if (!(scale > 0) || !std::isfinite(scale)) return 0;
    sum += static_cast<double>(scale);
  }
  return sum / static_cast<double>(parameter.numel());
}

}  // namespace

std::vector<std::pair<std::string, double>> describe_quantizers(const Graph& graph) {
  std::vector<std::pair<std::string, double>> figures;
  for (const Node& node : graph.nodes()) {
    for (const auto& [operand, quantizer] : node.quantization) {
      const std::optional<ScaleParameter> kind = scale_parameter(*quantizer);
      if (!kind) continue;
      const std::string name = fmt::format("{}.{}", node.name, operand);
      if (const double scale = mean_scale(*quantizer, *kind); scale > 0)
        figures.emplace_back("scale/" + name, scale);
      const QuantSpec spec = with_owned_fields(*quantizer);
      if (const auto integers = integer_codes(spec.format))
        figures.emplace_back("width/" + name, static_cast<double>(integers->width));
    }
  }
  return figures;
}

}  // namespace detent
