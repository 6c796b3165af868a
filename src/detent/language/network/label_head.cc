#include "detent/language/network/layers.h"

namespace detent {
namespace {

/// The mean over tokens of the mask, [N, size].
NodeInput mean_of_seen(NetworkNodes& net, const TokenPositions& positions, const NodeInput& x) {
  const NodeInput seen = positions.seen();
  const NodeInput sums = net.call("sum", {net.call("mul", {x, seen}), list_input({1})});
  return net.call("div", {sums, net.call("sum", {seen, list_input({1})})});
}

/// The row of the last token that counts; of the first where none does.
NodeInput last_counted(NetworkNodes& net, const TokenPositions& positions, const NodeInput& counts,
                       const NodeInput& x) {
  const NodeInput places = net.call("mul", {counts, positions.queries()});
  const NodeInput last = net.call("argmax", {places}, {{"dim", -1}, {"keepdim", true}});
  return net.call("gather_nd", {x, last}, {{"batch_dims", 1}});
}

/// Tokens other than padding count; without padding all do.
NodeInput last_token(NetworkNodes& net, const TokenPositions& positions, const NodeInput& x) {
  if (!net.config().pad) return net.call("select", {x}, {{"dim", 1}, {"index", -1}});
  const NodeInput is_pad = net.call("eq", {positions.tokens(), NodeInput::of_constant(*net.config().pad)});
  const NodeInput counts = net.call("cast", {net.call("logical_not", {is_pad})}, {{"dtype", "int64"}});
  return last_counted(net, positions, counts, x);
}

NodeInput pooled(NetworkNodes& net, const TokenPositions& positions, const NodeInput& x) {
  switch (net.config().head.pooling) {
    case TokenPooling::kMean:
      return mean_of_seen(net, positions, x);
    case TokenPooling::kLast:
      return last_token(net, positions, x);
    case TokenPooling::kLastSeen:
      return last_counted(net, positions, positions.mask(), x);
    case TokenPooling::kMeanOfLogits:
      return x;
    case TokenPooling::kFirst:
      break;
  }
  return net.call("select", {x}, {{"dim", 1}, {"index", 0}});
}

}  // namespace

NodeInput sequence_embedding(NetworkNodes& net, const TokenPositions& positions, const NodeInput& x) {
  constexpr double kLeastLength = 1e-12;
  const NetworkHead& head = net.config().head;
  NodeInput y = pooled(net, positions, x);
  if (!head.layer.empty()) y = net.linear(head.layer, y, net.config().hidden, head.size, head.layer_bias);
  if (head.activation) y = activated(net, *head.activation, head.layer + ".activation", y);
  if (!head.is_normalized) return y;
  const NodeInput squares = net.call("sum", {net.call("mul", {y, y}), list_input({-1})}, {{"keepdim", true}});
  const NodeInput length = net.call("maximum", {net.call("sqrt", {squares}), number_input(kLeastLength)});
  return net.call("div", {y, length});
}

NodeInput labelled(NetworkNodes& net, const TokenPositions& positions, NodeInput x) {
  const LanguageConfig& config = net.config();
  const NetworkHead& head = config.head;
  const bool is_of_sequence =
      head.kind == HeadKind::kSequenceLabels || head.kind == HeadKind::kMaskedTokensAndLabels;
  const int64_t size = config.is_causal ? config.token_size() : config.hidden;
  if (is_of_sequence) x = pooled(net, positions, x);
  if (!head.layer.empty()) x = net.linear(head.layer, x, size, size, head.layer_bias);
  if (head.activation) x = activated(net, *head.activation, head.layer + ".activation", x);
  if (!head.norm.empty()) x = net.norm(head.norm, x, size);
  x = net.linear(head.last, x, size, head.labels, head.last_bias);
  if (head.kind == HeadKind::kTokenScores) return net.call("squeeze", {x, list_input({-1})});
  return is_of_sequence && head.pooling == TokenPooling::kMeanOfLogits ? mean_of_seen(net, positions, x) : x;
}

}  // namespace detent
