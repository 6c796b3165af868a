#include "detent/language/cache_format.h"

#include <algorithm>
#include <vector>

#include "detent/core/error.h"
#include "detent/graph/operators.h"
#include "detent/graph/traits.h"
#include "detent/language/language_graph.h"

namespace detent {
namespace {

constexpr int64_t kHeadAxis = 2;

/// Spec of values [1, tokens, heads, size].
QuantSpec spec_of(const Format& format, int64_t size) {
  QuantSpec spec{.format = format};
  const bool derives = std::visit([]<class F>(const F&) { return !FormatWithoutData<F>; }, format);
  if (!derives) return spec;
  spec.granularity = Granularity::kGroup;
  spec.axis = kHeadAxis;
  spec.group_size = size;
  return spec;
}

bool is_quantized(const Node& node, std::string_view operand) {
  return node.find_quantization(operand) != nullptr;
}

/// Throws Error where what the node keeps is rounded on its way to attention.
void check_is_plain(const Graph& graph, const Node& cache) {
  const auto refuse = [&](const Node& node) {
    fail(
        "node \"{}\": keys and values are quantized already, by \"{}\"; expected a network that keeps them "
        "in float",
        cache.name, node.name);
  };
  for (const Node& node : graph.nodes()) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i].node == cache.name && is_quantized(node, fmt::format("data_in_{}", i))) refuse(node);
    }
  }
  for (const Node* const node : {&cache, &graph.node(cache.inputs[0].node)}) {
    if (is_quantized(*node, "data_in_0") || is_quantized(*node, "data_out_0")) refuse(*node);
  }
}

}  // namespace

Format parse_cache_format(std::string_view text, const std::string& where) {
  QuantSpec spec;
  std::shared_ptr<const CacheCodec> codec;
  try {
    spec = parse_quant_spec_text(text);
    if (spec != QuantSpec{.format = spec.format})
      fail(
          "got \"{}\", expected it without granularity, axis and scale_rule: each token's part of a head has "
          "a "
          "scale of its own",
          text);
    codec = CacheCodec::of_format(spec.format);
  } catch (const Error& error) {
    fail("{}: {}", where, error.what());
  }
  if (codec == nullptr) {
    fail(
        "{}: got \"{}\", expected a format of single elements of at most 8 bits whose values are codes times "
        "a "
        "scale: int8, int4, uint4, fp8_e4m3fn, scaled:element=fp4_e2m1",
        where, text);
  }
  return spec.format;
}

void quantize_cache(Graph& graph, const Format& format) {
  const ValueTypes values = values_of_tokens(graph, 1);
  std::vector<std::pair<std::string, int64_t>> givers;
  for (const Node& node : graph.nodes()) {
    if (!cache_kind(node) || node.target.ends_with(".state_cache")) continue;
    check_is_plain(graph, node);
    const Node& giver = graph.node(node.inputs[0].node);
    const Operand& taken = values.at(value_name(giver.inputs.at(0)));
    const Operand& kept = values.at(value_name(node.name));
    const auto* moves = trait<Movement>(giver);
    const bool is_permuted = moves != nullptr && taken.is_tensor() && taken.shape.size() == 4 &&
                             kept.shape.size() == 4 && kept.shape[1] == taken.shape[kHeadAxis];
    if (!is_permuted)
      fail("node \"{}\": got what \"{}\" gives, expected heads of [tokens, heads, size] in another order",
           node.name, giver.name);
    givers.emplace_back(giver.name, taken.shape.back());
  }
  if (givers.empty()) fail("graph \"{}\": has no keys and values that a decoder keeps", graph.name());
  for (const auto& [name, size] : givers)
    graph.node(name).quantization["data_in_0"] = QuantizerRef(Quantizer(spec_of(format, size)));
}

std::shared_ptr<const CacheCodec> cache_codec(const QuantSpec& spec, int64_t size) {
  return spec == spec_of(spec.format, size) ? CacheCodec::of_format(spec.format) : nullptr;
}

}  // namespace detent
