#include "detent/graph/graph_parameters.h"

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

/// Default settings add nothing.
void add_settings(const Quantizer& quantizer, Fingerprint& fingerprint) {
  const auto add = [&](const char* setting, const auto& value) {
    fingerprint.add(fmt::format("{} {}", setting, enum_name(value)));
  };
  if (quantizer.rounding != Rounding::kNearest) add("rounding", quantizer.rounding);
  if (quantizer.norm_folding != NormFolding::kNo) add("fold_batch_norm", quantizer.norm_folding);
  if (const auto& observer = quantizer.observer) {
    add("observer", observer->statistic);
    fingerprint.add(
        fmt::format("{} {} {} {}", observer->argument, observer->momentum, observer->steps, observer->done));
  }
}

void add_graph(const Graph& graph, Fingerprint& fingerprint);

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
    add_settings(*quantizer, fingerprint);
  }
  if (node.body != nullptr) add_graph(*node.body, fingerprint);
}

void add_graph(const Graph& graph, Fingerprint& fingerprint) {
  for (const auto& [name, shape] : graph.input_shapes()) {
    fingerprint.add(name);
    fingerprint.add(shape_text(shape));
    const DType dtype = graph.input_types().find(name)->second.dtype;
    if (dtype != DType::kFloat32) fingerprint.add(dtype_name(dtype));
  }
  for (const Node& node : graph.nodes()) add_node(node, fingerprint);
  if (const std::optional<Requantization>& way = graph.requantization()) {
    fingerprint.add(enum_name(*way));
  }
}

}  // namespace

uint64_t network_fingerprint(const Graph& graph) {
  Fingerprint fingerprint;
  add_graph(graph, fingerprint);
  return fingerprint.value();
}

}  // namespace detent
