#include "detent/language/network/layers.h"

namespace detent {
namespace {

/// positive x^2 + slope x above 0, else negative (exp(min(x, least)) - 1 - x) + slope x.
NodeInput xielu(NetworkNodes& net, const std::string& target, const NodeInput& x) {
  const auto parameter = [&](const char* name) {
    return net.weight_tensor(target + name, target + name + ".weight", {1});
  };
  const NodeInput slope = parameter(".slope");
  const NodeInput positive = net.call("softplus", {parameter(".positive")});
  const NodeInput negative = net.call("add", {net.call("softplus", {parameter(".negative")}), slope});
  const NodeInput line = net.call("mul", {x, slope});
  const NodeInput square = net.call("mul", {net.call("mul", {x, positive}), x});
  const NodeInput curve =
      net.call("sub", {net.call("elu", {net.call("minimum", {x, parameter(".least")})}), x});
  return net.call("where", {net.call("gt", {x, number_input(0)}), net.call("add", {square, line}),
                            net.call("add", {net.call("mul", {curve, negative}), line})});
}

NodeInput clamped_gate(NetworkNodes& net, const NodeInput& gate, const NodeInput& up) {
  const ClampedGate& clamped = net.config().experts.gate;
  const NodeInput most = number_input(clamped.limit);
  const NodeInput low = net.call("minimum", {gate, most});
  const NodeInput share = net.call("sigmoid", {net.call("mul", {low, number_input(clamped.slope)})});
  const NodeInput wide = net.call("clamp", {up, number_input(-clamped.limit), most});
  return net.call("mul", {net.call("add", {wide, number_input(1)}), net.call("mul", {low, share})});
}

}  // namespace

NodeInput activated(NetworkNodes& net, Activation activation, const std::string& target, const NodeInput& x) {
  switch (activation) {
    case Activation::kXielu:
      return xielu(net, target, x);
    case Activation::kRelu:
      return net.call("relu", {x});
    case Activation::kSquaredRelu: {
      const NodeInput positive = net.call("relu", {x});
      return net.call("mul", {positive, positive});
    }
    case Activation::kGelu:
      return net.call("gelu", {x});
    case Activation::kGeluTanh:
      return net.call("gelu", {x}, {{"approximate", "tanh"}});
    case Activation::kTanh:
      return net.call("tanh", {x});
    case Activation::kSilu:
      break;
  }
  return net.call("silu", {x});
}

NodeInput perceptron(NetworkNodes& net, const std::string& target, const NodeInput& x, int64_t size,
                     bool bias) {
  const LanguageConfig& config = net.config();
  const auto wide = [&](const char* name) { return net.linear(target + name, x, config.hidden, size, bias); };
  NodeInput y;
  if (config.experts.gate.slope != 0) {
    const NodeInput gate = wide(".gate");
    y = clamped_gate(net, gate, wide(".up"));
  } else if (config.perceptron == PerceptronKind::kGated) {
    const NodeInput gate = activated(net, config.activation, target + ".activation", wide(".gate"));
    y = net.call("mul", {gate, wide(".up")});
  } else {
    y = activated(net, config.activation, target + ".activation", wide(".up"));
  }
  if (config.inner_norms) y = net.norm(target + ".down_norm", y, size);
  return net.linear(target + ".down", y, size, config.hidden, bias);
}

}  // namespace detent
