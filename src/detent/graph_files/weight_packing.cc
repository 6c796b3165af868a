#include "detent/graph_files/packed_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <variant>

#include "detent/core/error.h"
#include "detent/formats/groups/given_parameters.h"

namespace detent {
namespace {

/// A parameter where it has a format.
struct Use {
  Node* node;
  std::string name;
};

/// Parameters that share their storage.
struct SharedParameter {
  Tensor tensor;
  std::vector<Use> uses;
  bool is_read_as_float = false;  // by a node that does not quantize it
};

struct Packed {
  Encoded codes;
  QuantSpec spec;
};

/// Codes, or why there are none.
using Result = std::variant<Packed, std::string>;

const Quantizer& quantizer_of(const Use& use) { return *use.node->find_quantizer(use.name); }

int64_t differences(const Tensor& a, const Tensor& b) {
  const auto x = a.values<float>();
  const auto y = b.values<float>();
  int64_t count = 0;
  for (size_t i = 0; i < x.size(); ++i)
    count += std::bit_cast<uint32_t>(x[i]) != std::bit_cast<uint32_t>(y[i]) ? 1 : 0;
  return count;
}

/// With the first of the specs that leaves the rounded values as they are.
Result pack(const Tensor& tensor, const QuantSpec& spec) {
  const Tensor rounded = fake_quantize(spec, tensor);
  int64_t moved = 0;
  for (const QuantSpec& held : std::array{with_given_parameters(spec, tensor), spec}) {
    moved = differences(rounded, fake_quantize(held, rounded));
    if (moved > 0) continue;
    Packed packed{encode_without_given(held, rounded), held};
    const int64_t lost = differences(rounded, decode(packed.codes));
    if (lost == 0) return packed;
    return fmt::format("its integers stand for others than {} of the {} values", lost, rounded.numel());
  }
  return fmt::format("rounding its {} rounded values again would change {} of them", rounded.numel(), moved);
}

Result pack(const Quantizer& quantizer, const Tensor& tensor) {
  const Format& format = quantizer.spec.format;
  if (is_stochastic(format)) return "its rounding draws at random each time";
  try {
    const std::optional<QuantSpec> rounding = quantizer.effective_spec();
    if (!rounding) return fmt::format("{} with a learned scale has no integers", format_name(format));
    return pack(tensor, *rounding);
  } catch (const Error& error) {
    return error.what();
  }
}

/// Whether all uses round it alike.
bool is_alike(const SharedParameter& parameter) {
  const Quantizer& first = quantizer_of(parameter.uses.front());
  return !parameter.is_read_as_float &&
         std::ranges::all_of(parameter.uses, [&](const Use& use) { return quantizer_of(use) == first; });
}

/// By their first bytes, all parameters that there are.
class SharedParameters {
 public:
  /// Bodies of loops become copies, which may change.
  void add(Graph& graph) {
    for (Node& node : graph.nodes()) {
      for (const auto& [name, parameter] : node.parameters)
        if (parameter->tensor.numel() > 0) add(node, name, parameter->tensor);
      if (node.body == nullptr) continue;
      const auto body = std::make_shared<Graph>(*node.body);
      add(*body);
      node.body = body;
    }
  }

  std::vector<SharedParameter> quantized() && {
    std::erase_if(all_, [](const SharedParameter& parameter) { return parameter.uses.empty(); });
    return std::move(all_);
  }

 private:
  void add(Node& node, const std::string& name, const Tensor& tensor) {
    const auto [entry, is_new] = places_.try_emplace(tensor.bytes().data(), all_.size());
    if (is_new) all_.push_back({tensor, {}});
    SharedParameter& shared = all_[entry->second];
    if (node.find_quantization(name) == nullptr || shared.tensor.shape() != tensor.shape()) {
      shared.is_read_as_float = true;
    } else {
      shared.uses.push_back({&node, name});
    }
  }

  std::vector<SharedParameter> all_;
  std::map<const std::byte*, size_t> places_;
};

std::vector<SharedParameter> quantized_parameters(Graph& graph) {
  SharedParameters parameters;
  parameters.add(graph);
  return std::move(parameters).quantized();
}

/// Parameters of quantizers stay as they are: they are stored by themselves.
void apply(const SharedParameter& parameter, const Packed& packed) {
  const QuantizerRef quantizer(packed.spec);
  for (const Use& use : parameter.uses) {
    if (quantizer_of(use).is_spec_alone()) use.node->quantization.find(use.name)->second = quantizer;
  }
}

}  // namespace

PackedWeights pack_weights(const Graph& graph) {
  PackedWeights result{graph, {}, {}};
  for (const SharedParameter& parameter : quantized_parameters(result.graph)) {
    const Use& first = parameter.uses.front();
    Result packed = is_alike(parameter) ? pack(quantizer_of(first), parameter.tensor)
                                        : Result("nodes that share it do not round it alike");
    if (auto* codes = std::get_if<Packed>(&packed)) {
      apply(parameter, *codes);
      result.codes.emplace(parameter.tensor.bytes().data(), std::move(codes->codes));
      continue;
    }
    result.left.push_back(fmt::format("node \"{}\", {} ({}): {}", first.node->name, first.name,
                                      quant_spec_text(quantizer_of(first).spec),
                                      std::get<std::string>(packed)));
  }
  return result;
}

}  // namespace detent
