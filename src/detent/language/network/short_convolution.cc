#include "detent/language/network/layers.h"

namespace detent {
namespace {

/// The last rows [N, 1, tokens, size] of all tokens, as many as the queries and `before` more; zeros in front
/// of the first token. A decoder finds them by `target`.
NodeInput rows_up_to(NetworkNodes& net, const TokenPositions& positions, const NodeInput& rows,
                     int64_t before, const std::string& target) {
  const NodeInput first = net.call("sub", {positions.past(), NodeInput::of_constant(before)});
  const NodeInput places = net.call("range", {first, positions.total(), NodeInput::of_constant(int64_t{1})});
  const NodeInput nearest = net.call("maximum", {places, NodeInput::of_constant(int64_t{0})});
  const NodeInput exists = net.call("ge", {places, NodeInput::of_constant(int64_t{0})});
  const NodeInput factor =
      net.call("cast", {net.call("unsqueeze", {exists, list_input({1})})}, {{"dtype", "float32"}});
  return net.call("mul", {net.named("gather", target, {rows, nearest}, {}, {{"dim", 2}}), factor});
}

}  // namespace

NodeInput short_convolution(NetworkNodes& net, const TokenPositions& positions, int64_t index,
                            const NodeInput& x) {
  const LanguageConfig& config = net.config();
  const ShortConvolution& of = config.short_convolution;
  const int64_t size = config.hidden;
  const std::string target = fmt::format("layers.{}.convolution", index);
  const NodeInput seen = net.call("mul", {x, positions.seen_queries()});
  const NodeInput parts = net.call("split", {net.linear(target + ".input", seen, size, 3 * size, of.bias)},
                                   {{"sizes", std::vector<int64_t>{size, size, size}}, {"dim", -1}});
  NodeInput y = net.call("mul", {parts, NodeInput::of(parts.node, 2)});
  y = net.call("unsqueeze", {y, list_input({1})});
  if (config.gives_text()) y = net.named("identity", target + ".state_cache", {y});
  y = net.call("squeeze",
               {rows_up_to(net, positions, y, of.width - 1, target + ".state_rows"), list_input({1})});
  NetworkNodes::Parameters taps = {{"weight", net.weight(target + ".taps.weight", {size, 1, of.width})}};
  if (of.bias) taps.emplace_back("bias", net.weight(target + ".taps.bias", {size}));
  y = net.call("permute", {y}, {{"dims", std::vector<int64_t>{0, 2, 1}}});
  y = net.named("conv1d", target + ".taps", {y}, std::move(taps), {{"groups", size}});
  y = net.call("permute", {y}, {{"dims", std::vector<int64_t>{0, 2, 1}}});
  y = net.call("mul", {NodeInput::of(parts.node, 1), y});
  return net.linear(target + ".output", y, size, size, of.bias);
}

}  // namespace detent
