#include "detent/hardware/layer_circuits.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "detent/core/error.h"
#include "detent/formats/verbs.h"
#include "detent/graph/operators.h"
#include "detent/graph/traits.h"
#include "detent/hardware/circuit.h"
#include "detent/inference/code_type.h"

namespace detent {
namespace {

constexpr int kMostBits = 16;

/// All multiples of a step from low to high: such a list is what an affine format of some width has.
std::optional<Format> integer_format_of(const WireRange& range, float scale) {
  const IntegerCodes codes{.width = std::max(range.width(), 2),
                           .is_signed = range.is_signed(),
                           .is_symmetric = range.is_signed(),
                           .is_narrow = range.is_signed() && range.low == -range.high};
  if (codes.width > kMostBits || codes.low() != range.low || codes.high() != range.high) return std::nullopt;
  return integer_format(codes, {{scale}, {0}});
}

bool round_alike(const QuantSpec& a, const QuantSpec& b, const std::vector<float>& values) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> probes = {-kInfinity, kInfinity, -0.0F};
  for (size_t i = 0; i < values.size(); ++i) {
    probes.push_back(values[i]);
    if (i + 1 == values.size()) break;
    const float middle = values[i] + (values[i + 1] - values[i]) / 2;
    for (const float x : {std::nextafter(middle, -kInfinity), middle, std::nextafter(middle, kInfinity)})
      probes.push_back(x);
  }
  const Tensor input = Tensor::from<float>({static_cast<int64_t>(probes.size())}, probes);
  return std::ranges::equal(fake_quantize(a, input).values<float>(), fake_quantize(b, input).values<float>());
}

/// The rounded weight of a layer, and its codes' format: a scale for all, or one a channel of dimension 0.
struct SteppedWeight {
  Tensor values;
  QuantSpec spec;
};

int bits_of(std::span<const float> values, float step) {
  int bits = 2;
  for (const float value : values) {
    const int64_t code = *steps_of(value, step);
    bits = std::max(bits, WireRange{std::min(code, -code), std::max(code, -code)}.width());
  }
  return bits;
}

std::optional<SteppedWeight> stepped(const Node& node, const QuantSpec& rounding, int64_t channel_dim) {
  SteppedWeight weight{fake_quantize(rounding, node.find_parameter("weight")->tensor), {}};
  const auto values = std::as_const(weight.values).values<float>();
  IntegerCodes codes{.width = 2, .is_symmetric = true, .is_narrow = true};
  std::vector<float> scales;
  if (const std::optional<float> step = step_of(values)) {
    scales = {*step};
    codes.width = bits_of(values, *step);
  } else if (channel_dim == 0) {
    const size_t row = values.size() / static_cast<size_t>(weight.values.dim(0));
    for (size_t first = 0; first < values.size(); first += row) {
      const std::optional<float> channel_step = step_of(values.subspan(first, row));
      if (!channel_step) return std::nullopt;
      scales.push_back(*channel_step);
      codes.width = std::max(codes.width, bits_of(values.subspan(first, row), *channel_step));
    }
    weight.spec.granularity = Granularity::kChannel;
  } else {
    return std::nullopt;
  }
  if (codes.width > kMostBits) return std::nullopt;
  const std::vector<int> zero_points(scales.size(), 0);
  weight.spec.format = integer_format(codes, {std::move(scales), zero_points});
  return weight;
}

void replace_weight(Node& node, int64_t channel_dim) {
  const std::optional<QuantSpec> rounding = node.rounding("weight");
  if (!rounding || !code_types(*rounding).empty()) return;
  std::optional<SteppedWeight> weight = stepped(node, *rounding, channel_dim);
  if (!weight) return;
  node.find_parameter("weight")->tensor = std::move(weight->values);
  node.quantization["weight"] = weight->spec;
}

void round_bias(Node& node) {
  const std::optional<QuantSpec> rounding = node.rounding("bias");
  if (!rounding) return;
  Tensor& bias = node.find_parameter("bias")->tensor;
  bias = fake_quantize(*rounding, bias);
  node.quantization.erase("bias");
}

/// Whether integers change the bias, by rounding it to multiples of the unit of the sums.
bool bias_is_rounded(const Node& node) {
  const Parameter* bias = node.find_parameter("bias");
  const std::optional<CodeType> input = operand_code_type(node, "data_in_0");
  const std::optional<QuantSpec> rounding = node.rounding("weight");
  if (bias == nullptr || !input || !rounding) return false;
  const std::vector<CodeType> types = code_types(*rounding);
  if (types.empty()) return false;
  const auto values = bias->tensor.values<float>();
  for (size_t c = 0; c < values.size(); ++c) {
    const float unit = input->scale * types[types.size() == 1 ? 0 : c % types.size()].scale;
    if (std::nearbyint(values[c] / unit) * unit != values[c]) return true;
  }
  return false;
}

std::string rounded_bias_note(const Node& node) {
  return fmt::format("node \"{}\": its bias is rounded to multiples of the unit of its sums", node.name);
}

}  // namespace

std::optional<QuantSpec> affine_equal(const QuantSpec& rounding) {
  const std::vector<float> values = fixed_values(rounding);
  if (values.size() < 3 || values.size() > size_t{1} << kMostBits) return std::nullopt;
  const float step = values[1] - values[0];
  const std::optional<int64_t> low = steps_of(values.front(), step);
  const std::optional<int64_t> high = steps_of(values.back(), step);
  if (!low || !high || *high - *low + 1 != static_cast<int64_t>(values.size())) return std::nullopt;
  const std::optional<Format> format = integer_format_of({*low, *high}, step);
  if (!format) return std::nullopt;
  QuantSpec spec;
  spec.format = *format;
  return round_alike(rounding, spec, values) ? std::optional(spec) : std::nullopt;
}

Graph integer_graph(const Graph& graph, std::vector<std::string>& notes) {
  Graph integers = graph;
  for (Node& node : integers.nodes()) {
    for (auto& [operand, quantizer] : node.quantization) {
      const std::optional<QuantSpec> rounding = quantizer->effective_spec();
      if (!operand.starts_with("data_") || !rounding || !code_types(*rounding).empty()) continue;
      if (const std::optional<QuantSpec> equal = affine_equal(*rounding)) quantizer = *equal;
    }
    if (const auto* sum = trait<WeightedSum>(node)) {
      replace_weight(node, sum->output_axis());
      round_bias(node);
      if (has_product_tables(node)) {
        if (make_product_tables(node)) notes.push_back(rounded_bias_note(node));
        continue;
      }
      if (!graph.requantization() && bias_is_rounded(node)) notes.push_back(rounded_bias_note(node));
    }
  }
  if (!integers.requantization()) integers.set_requantization(Requantization::kFloat);
  return integers;
}

}  // namespace detent
