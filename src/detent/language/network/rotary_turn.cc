#include "detent/language/network/positions.h"

namespace detent {
namespace {

/// The frequencies, twice, first with the other sign.
NodeInput signed_frequencies(NetworkNodes& net, const std::vector<float>& frequencies,
                             const std::string& name) {
  std::vector<float> both;
  for (const float f : frequencies) both.push_back(-f);
  both.insert(both.end(), frequencies.begin(), frequencies.end());
  const auto size = std::ssize(both);
  return net.constant_tensor(name, Tensor::from<float>({size}, both));
}

/// Frequencies that shrink with the length, by the steps of transformers: a last bit of a frequency is a
/// thousand of an angle.
NodeInput shrunk_frequencies(NetworkNodes& net, const TokenPositions& positions, const Rotary& rotary,
                             const std::string& name) {
  const auto from = static_cast<double>(rotary.grows_from);
  const size_t size = rotary.frequencies.size();
  std::vector<float> signs(size, -1);
  signs.resize(2 * size, 1);
  std::vector<float> exponents;
  for (size_t i = 0; i < 2 * size; ++i)
    exponents.push_back(static_cast<float>(2 * (i % size)) / static_cast<float>(2 * size));
  const NodeInput length = net.call(
      "maximum", {net.call("cast", {positions.total()}, {{"dtype", "float32"}}), number_input(from)});
  const NodeInput share =
      net.call("div", {net.call("mul", {length, number_input(rotary.growth)}), number_input(from)});
  const NodeInput growth = net.call("sub", {share, number_input(rotary.growth - 1)});
  const double power = static_cast<double>(2 * size) / static_cast<double>(2 * size - 2);
  const NodeInput base =
      net.call("mul", {net.call("pow", {growth, number_input(power)}), number_input(rotary.theta)});
  const auto vector = [&](const char* what, const std::vector<float>& values) {
    return net.constant_tensor(name + what, Tensor::from<float>({std::ssize(values)}, values));
  };
  return net.call("div", {vector(".signs", signs), net.call("pow", {base, vector(".exponents", exponents)})});
}

}  // namespace

Turn turn_of(NetworkNodes& net, const TokenPositions& positions, const Rotary& rotary,
             const std::string& name) {
  if (rotary.frequencies.empty()) return {};
  NodeInput frequencies = signed_frequencies(net, rotary.frequencies, name);
  if (!rotary.long_frequencies.empty()) {
    const NodeInput is_long = net.call("gt", {positions.total(), constant(rotary.long_from)});
    frequencies = net.call(
        "where", {is_long, signed_frequencies(net, rotary.long_frequencies, name + ".long"), frequencies});
  }
  if (rotary.growth > 0) {
    const NodeInput is_long = net.call("gt", {positions.total(), constant(rotary.grows_from)});
    frequencies = net.call("where", {is_long, shrunk_frequencies(net, positions, rotary, name), frequencies});
  }
  const NodeInput angles = net.call("mul", {positions.float_queries(), frequencies});
  Turn turn{2 * std::ssize(rotary.frequencies), net.call("cos", {angles}), net.call("sin", {angles})};
  if (rotary.factor != 1) {
    turn.cosine = net.call("mul", {turn.cosine, number_input(rotary.factor)});
    turn.sine = net.call("mul", {turn.sine, number_input(rotary.factor)});
  }
  return turn;
}

NodeInput split_at(NetworkNodes& net, const NodeInput& x, int64_t first, int64_t size) {
  return net.call("split", {x}, {{"sizes", std::vector<int64_t>{first, size - first}}, {"dim", -1}});
}

NodeInput turned(NetworkNodes& net, const NodeInput& x, const Turn& turn, int64_t size) {
  if (turn.size == 0) return x;
  NodeInput part = x;
  NodeInput rest;
  if (turn.size < size) {
    part = split_at(net, x, turn.size, size);
    rest = NodeInput::of(part.node, 1);
  }
  const NodeInput first = split_at(net, part, turn.size / 2, turn.size);
  const NodeInput exchanged = net.call("cat", {NodeInput::of(first.node, 1), first}, {{"dim", -1}});
  const NodeInput sum =
      net.call("add", {net.call("mul", {part, turn.cosine}), net.call("mul", {exchanged, turn.sine})});
  if (turn.size == size) return sum;
  return net.call("cat", {sum, rest}, {{"dim", -1}});
}

}  // namespace detent
