#include "detent/graph/fingerprint.h"

#include <functional>

namespace detent {
namespace {

/// A hash that depends on the order of what is added.
class Fingerprint {
 public:
  void add(std::string_view text) {
    hash_ = (hash_ ^ std::hash<std::string_view>{}(text)) * 0x9E3779B97F4A7C15U + 1;
  }
  uint64_t value() const { return hash_; }

 private:
  uint64_t hash_ = 0;
};

}  // namespace

uint64_t network_fingerprint(const Graph& graph) {
  Fingerprint fingerprint;
  for (const Node& node : graph.nodes()) {
    fingerprint.add(node.name);
    fingerprint.add(node.op);
    fingerprint.add(value_text(node.attributes));
    for (const NodeInput& input : node.inputs) {
      fingerprint.add(input.is_constant() ? value_text(input.constant) : input.node);
    }
    for (const auto& [name, parameter] : node.parameters) {
      const std::span<const std::byte> bytes = parameter.tensor.bytes();
      fingerprint.add({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    }
    for (const auto& [operand, spec] : node.quantization) fingerprint.add(operand + quant_spec_text(spec));
  }
  return fingerprint.value();
}

}  // namespace detent
