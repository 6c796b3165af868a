#include <numeric>

#include "detent/language/language_graph.h"
#include "detent/language/network/layers.h"

namespace detent {
namespace {

NodeInput split_by_expert(NetworkNodes& net, const std::string& target, const NodeInput& shares) {
  const std::vector<int64_t> sizes(static_cast<size_t>(net.config().experts.count), 1);
  return net.named("split", target + kExpertShares, {shares}, {}, {{"sizes", sizes}, {"dim", -1}});
}

/// Which of `count` each result of topk picks, [N, sequence, picks, count].
NodeInput picked(NetworkNodes& net, const std::string& target, const NodeInput& top, int64_t count) {
  std::vector<int64_t> all(static_cast<size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  const NodeInput places = net.constant_tensor(target, Tensor::from<int64_t>({count}, all));
  return net.call("eq", {net.call("unsqueeze", {NodeInput::of(top.node, 1), list_input({3})}), places});
}

/// Choices of the groups whose greatest ones sum up to most; others are the least number.
NodeInput of_used_groups(NetworkNodes& net, const std::string& target, const NodeInput& choice) {
  const Experts& experts = net.config().experts;
  const NodeInput groups = net.call(
      "dynamic_reshape", {choice, list_input({0, 0, experts.groups, experts.count / experts.groups})});
  const NodeInput most = net.call("topk", {groups, constant(experts.group_shares)}, {{"dim", -1}});
  const NodeInput sums = net.call("sum", {most, list_input({3})});
  const NodeInput top = net.call("topk", {sums, constant(experts.groups_used)}, {{"dim", -1}});
  const NodeInput is_picked = picked(net, target + ".groups", top, experts.groups);
  const NodeInput count =
      net.call("sum", {net.call("cast", {is_picked}, {{"dtype", "float32"}}), list_input({2})});
  const NodeInput is_used =
      net.call("unsqueeze", {net.call("gt", {count, number_input(0)}), list_input({3})});
  const NodeInput kept = net.call("where", {is_used, groups, number_input(kMaskedScore)});
  return net.call("dynamic_reshape", {kept, list_input({0, 0, experts.count})});
}

/// Shares that are picked by other numbers than they count with.
NodeInput chosen_shares(NetworkNodes& net, const std::string& target, const NodeInput& scores) {
  const Experts& experts = net.config().experts;
  const NodeInput of_all = experts.by_sigmoid ? net.named("sigmoid", target + ".of_all", {scores})
                                              : net.softmax(target + ".of_all", scores);
  NodeInput choice = of_all;
  if (experts.choice_bias) {
    const NodeInput bias = net.weight_tensor(target + ".choice", target + ".choice.weight", {experts.count});
    choice = net.call("add", {choice, bias});
  }
  if (experts.groups > 1) choice = of_used_groups(net, target, choice);
  const NodeInput top = net.call("topk", {choice, constant(experts.used)}, {{"dim", -1}});
  const NodeInput is_used = picked(net, target + ".places", top, experts.count);
  const NodeInput by_use =
      net.call("where", {is_used, net.call("unsqueeze", {of_all, list_input({2})}), number_input(0)});
  NodeInput shares = net.call("sum", {by_use, list_input({2})});
  if (experts.normalized) {
    NodeInput sum = net.call("sum", {shares, list_input({2})}, {{"keepdim", true}});
    if (experts.added_to_sum != 0) sum = net.call("add", {sum, number_input(experts.added_to_sum)});
    shares = net.call("div", {shares, net.call("maximum", {sum, number_input(experts.least_sum)})});
  }
  if (experts.scale != 1) shares = net.call("mul", {shares, number_input(experts.scale)});
  return split_by_expert(net, target, shares);
}

/// The share of each expert, [N, sequence, 1]: 0 of those that are not used. A decoder leaves those out
/// (decoder.cc).
NodeInput shares_of_experts(NetworkNodes& net, const std::string& target, const NodeInput& x) {
  const Experts& experts = net.config().experts;
  const NodeInput scores =
      net.linear(target + ".router", x, net.config().hidden, experts.count, experts.has_biases);
  if (experts.by_sigmoid || experts.choice_bias || experts.groups > 1 || experts.scale != 1)
    return chosen_shares(net, target, scores);
  const NodeInput of_all = net.softmax(target + ".of_all", scores);
  const NodeInput used = net.call("topk", {of_all, constant(experts.used)}, {{"dim", -1}});
  NodeInput shares = used;
  if (experts.normalized) {
    const NodeInput sum = net.call("sum", {used, list_input({2})}, {{"keepdim", true}});
    shares = net.call("div", {used, sum});
  }
  const NodeInput is_used = picked(net, target + ".places", used, experts.count);
  const NodeInput by_use =
      net.call("where", {is_used, net.call("unsqueeze", {shares, list_input({3})}), number_input(0)});
  return split_by_expert(net, target, net.call("sum", {by_use, list_input({2})}));
}

}  // namespace

NodeInput experts(NetworkNodes& net, const std::string& target, const NodeInput& x) {
  const Experts& experts = net.config().experts;
  const NodeInput shares = shares_of_experts(net, target, x);
  const bool biased = experts.has_biases || net.config().perceptron_bias;
  NodeInput sum;
  for (int64_t i = 0; i < experts.count; ++i) {
    const NodeInput y = perceptron(net, fmt::format("{}.{}", target, i), x, experts.intermediate, biased);
    const NodeInput share = NodeInput::of(shares.node, static_cast<size_t>(i));
    const NodeInput part = net.call("mul", {y, share});
    sum = i == 0 ? part : net.call("add", {sum, part});
  }
  if (experts.shared == 0) return sum;
  NodeInput shared = perceptron(net, target + ".shared", x, experts.shared, biased);
  if (experts.shared_gate) {
    const NodeInput gate = net.linear(target + ".shared_router", x, net.config().hidden, 1, false);
    shared = net.call("mul", {shared, net.call("sigmoid", {gate})});
  }
  return net.call("add", {sum, shared});
}

}  // namespace detent
