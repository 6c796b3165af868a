#include "detent/graph/fingerprint.h"

#include "detent/core/xxh64.h"

namespace detent {
namespace {

/// XXH64 of each part, with the hash of the parts before it for a seed.
class Fingerprint {
 public:
  void add(std::span<const std::byte> bytes) { hash_ = xxh64(bytes, hash_); }
  void add(std::string_view text) { hash_ = xxh64(text, hash_); }
  uint64_t value() const { return hash_; }

 private:
  uint64_t hash_ = 0;
};

void add_node(const Node& node, Fingerprint& fingerprint) {
  fingerprint.add(node.name);
  fingerprint.add(node.op);
  fingerprint.add(value_text(node.attributes));
  for (const NodeInput& input : node.inputs) {
    fingerprint.add(input.is_constant() ? value_text(input.constant) : value_name(input));
  }
  for (const auto& [name, parameter] : node.all_parameters()) {
    const Tensor& tensor = parameter->tensor;
    fingerprint.add(fmt::format("{} {} {}", name, dtype_name(tensor.dtype()), shape_text(tensor.shape())));
    fingerprint.add(tensor.bytes());
  }
  for (const auto& [operand, quantizer] : node.quantization) {
    fingerprint.add(operand);
    fingerprint.add(quant_spec_text(quantizer->spec));
  }
}

}  // namespace

uint64_t network_fingerprint(const Graph& graph) {
  Fingerprint fingerprint;
  for (const auto& [name, shape] : graph.input_shapes()) {
    fingerprint.add(name);
    fingerprint.add(shape_text(shape));
    const DType dtype = graph.input_types().find(name)->second.dtype;
    if (dtype != DType::kFloat32) fingerprint.add(dtype_name(dtype));
  }
  for (const Node& node : graph.nodes()) add_node(node, fingerprint);
  if (const std::optional<Requantization>& way = graph.requantization()) {
    fingerprint.add(enum_names(*way)[static_cast<size_t>(*way)]);
  }
  return fingerprint.value();
}

}  // namespace detent
