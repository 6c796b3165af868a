#include "detent/workflows/quantized_cache.h"

#include "detent/core/error.h"
#include "detent/language/cache_format.h"
#include "detent/language/cached_tensor.h"
#include "detent/passes/post_training/static_quantize_options.h"

namespace detent {

std::optional<Format> cache_format_of(const std::string& text, const std::string& where) {
  if (text.empty()) return std::nullopt;
  return parse_cache_format(text, where);
}

void leave_cache_to_float(Table& passes, const Graph& network, const std::string& where) {
  List products;
  for (const Node& node : network.nodes()) {
    for (const NodeInput& input : node.inputs) {
      if (input.is_constant() || !cache_kind(network.node(input.node))) continue;
      products.emplace_back(node.name);
      break;
    }
  }
  if (products.empty())
    fail("{}: graph \"{}\" is no causal language model: it keeps no keys and values", where, network.name());
  Value* const given = passes.find("static_quantize");
  if (given == nullptr) fail("{}: the network brings its quantizers, which stay as they were trained", where);
  Table& options = *given->get_if<Table>();
  StaticQuantizeOptions others;
  read_fields(others, options, where);
  for (const std::string& pattern : others.keep_float) products.emplace_back(pattern);
  options["keep_float"] = Value(std::move(products));
}

}  // namespace detent
