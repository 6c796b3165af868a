#include <cmath>

#include "detent/core/error.h"
#include "detent/operators/attention/onnx_heads.h"
#include "detent/operators/onnx_import.h"

namespace detent {
namespace {

// Layers that carry a state along the sequence, of opset 27.

enum StateInput : size_t { kX, kKernel, kKernelBias, kPastPositions };

NodeInput end_of(NodeImport& node, const NodeInput& x, int64_t count, int64_t axis) {
  const NodeInput none = NodeImport::list_of({0});
  const NodeInput begin = count == 0 ? none : NodeImport::list_of({-count});
  const NodeInput end = count == 0 ? none : NodeImport::list_of({INT64_MAX});
  return node.add("dynamic_slice",
                  {x, begin, end, NodeImport::list_of({axis}), NodeImport::list_of({int64_t{1}})});
}

/// That of com.microsoft has further attributes, of which the rest are CUDA's.
void refuse_other_layouts(const NodeImport& node) {
  if (node.integer("ndim", 1) != 1 || node.integer("channels_last", 0) != 0 ||
      node.integer("state_window", 0) != 0)
    node.refuse("ndim, channels_last or state_window");
}

/// Each channel by itself, over the positions up to its own: those before the first are given, or zeros.
void convert_causal_convolution(NodeImport& node) {
  const Shape kernel = node.shape(kKernel);
  if (kernel.size() != 3 || kernel[1] != 1 || kernel[2] < 1)
    fail("a weight of shape {}, expected [channels, 1, positions]", shape_text(kernel));
  refuse_other_layouts(node);
  constexpr int64_t kMostApart = int64_t{1} << 20;
  const int64_t apart = node.integer("dilation", 1);
  if (apart < 1 || apart > kMostApart) fail("dilation is {}, expected 1 to {}", apart, kMostApart);
  const int64_t before = (kernel[2] - 1) * apart;
  const Table attributes = {{"groups", kernel[0]}, {"dilation", apart}};
  NodeInput x = node.input(kX);
  if (node.has_input(kPastPositions)) {
    x = node.add("cat", {node.input(kPastPositions), x}, {{"dim", 2}});
  } else if (before > 0) {
    x = node.add("dynamic_pad", {x, NodeImport::list_of({0, 0, before, 0, 0, 0})});
  }
  const auto is_parameter = [&](size_t input) {
    return node.constant(input) != nullptr && node.constant(input)->dtype() == DType::kFloat32;
  };
  const bool has_bias = node.has_input(kKernelBias);
  NodeInput result;
  if (is_parameter(kKernel) && (!has_bias || is_parameter(kKernelBias))) {
    NodeImport::Parameters parameters = {{"weight", node.parameter(kKernel)}};
    if (has_bias) parameters.emplace_back("bias", node.parameter(kKernelBias));
    result = node.add("conv1d", {x}, attributes, std::move(parameters));
  } else {
    std::vector<NodeInput> inputs = {x, node.input(kKernel)};
    if (has_bias) inputs.push_back(node.input(kKernelBias));
    result = node.add("convolution", std::move(inputs), attributes);
  }
  const std::string activation = node.text("activation", "none");
  if (activation == "silu" || activation == "swish") {
    result = node.add("silu", {result});
  } else if (activation != "none") {
    fail("activation \"{}\", expected none, silu or swish", activation);
  }
  node.set_output(0, result);
  if (node.wants(1)) node.set_output(1, end_of(node, x, before, 2));
}

enum LinearInput : size_t { kQueries, kKeys, kValues, kPastState, kDecay, kBeta };

/// The recurrence of one node: S is [batch, heads of keys, size of keys, size of values].
class Recurrence {
 public:
  explicit Recurrence(NodeImport& node) : node_(node), rule_(node.text("update_rule", "gated_delta")) {
    is_gated_ = rule_ == "gated" || rule_ == "gated_delta";
    has_delta_ = rule_ == "delta" || rule_ == "gated_delta";
    if (!is_gated_ && !has_delta_ && rule_ != "linear")
      fail("update_rule \"{}\", expected linear, gated, delta or gated_delta", rule_);
    of_queries_ = node.integer("q_num_heads", 0);
    of_keys_ = node.integer("kv_num_heads", 0);
    expect_heads(of_queries_, of_keys_);
    if (node.has_input(kDecay) != is_gated_ || node.has_input(kBeta) != has_delta_)
      fail("inputs decay and beta that update_rule \"{}\" does not have", rule_);
    size_ = size_of_heads(known_size(node, kQueries, 2), of_queries_);
    steps_ = known_size(node, kQueries, 1);
    constexpr int64_t kMostSteps = 4096;
    if (steps_ < 1 || steps_ > kMostSteps)
      node.refuse(
          fmt::format("a sequence of {} positions, of which there may be 1 to {}", steps_, kMostSteps));
    queries_ = split_heads(node, node.input(kQueries), of_queries_);
    keys_ = split_heads(node, node.input(kKeys), of_keys_);
    values_ = split_heads(node, node.input(kValues), of_keys_);
    if (is_gated_) gates_ = node.add("exp", {of_heads(kDecay)});
    if (has_delta_) rates_ = of_heads(kBeta);
  }

  void run() {
    NodeInput state = first_state();
    std::vector<NodeInput> results;
    const double given = node_.number("scale", 0);
    const double scale = given != 0 ? given : 1 / std::sqrt(static_cast<double>(size_));
    for (int64_t step = 0; step < steps_; ++step) {
      state = next(state, step);
      const NodeInput read = repeated_heads(node_, state, of_queries_, of_keys_);
      const NodeInput row = node_.add("matmul", {at(queries_, step), read});
      results.push_back(node_.add("mul", {row, NodeImport::number_of(scale)}));
    }
    const NodeInput all =
        results.size() == 1 ? results[0] : node_.add("cat", std::move(results), {{"dim", kSequenceAxis}});
    node_.set_output(0, join_heads(node_, all));
    if (node_.wants(1)) node_.set_output(1, state);
  }

 private:
  /// [batch, sequence, heads (* size)] as [batch, heads, sequence, 1 or size].
  NodeInput of_heads(size_t input) {
    const int64_t columns = known_size(node_, input, 2);
    return split_heads(node_, node_.input(input), columns == 1 ? 1 : of_keys_);
  }

  /// [batch, heads, 1, ...] at one position.
  NodeInput at(const NodeInput& x, int64_t step) {
    return node_.add("dynamic_slice",
                     {x, NodeImport::list_of({step}), NodeImport::list_of({step + 1}),
                      NodeImport::list_of({kSequenceAxis}), NodeImport::list_of({int64_t{1}})});
  }

  NodeInput column(const NodeInput& row) {
    return node_.add("transpose", {row}, {{"dim0", -2}, {"dim1", -1}});
  }

  /// That of zeros has no past: its first product is the state.
  NodeInput first_state() {
    return node_.has_input(kPastState) ? node_.input(kPastState) : NodeInput::absent();
  }

  NodeInput next(const NodeInput& before, int64_t step) {
    NodeInput state = before;
    const NodeInput key = at(keys_, step);
    NodeInput value = at(values_, step);
    const bool has_state = !before.is_absent();
    if (is_gated_ && has_state) state = node_.add("mul", {state, column(at(gates_, step))});
    if (has_delta_) {
      if (has_state) value = node_.add("sub", {value, node_.add("matmul", {key, state})});
      value = node_.add("mul", {at(rates_, step), value});
    }
    const NodeInput product = node_.add("mul", {column(key), value});
    return has_state ? node_.add("add", {state, product}) : product;
  }

  NodeImport& node_;
  std::string rule_;
  bool is_gated_ = false;
  bool has_delta_ = false;
  int64_t of_queries_ = 0;
  int64_t of_keys_ = 0;
  int64_t size_ = 0;
  int64_t steps_ = 0;
  NodeInput queries_;
  NodeInput keys_;
  NodeInput values_;
  NodeInput gates_;
  NodeInput rates_;
};

/// How long the sequence is has to be known: a step of the network for each position. `chunk_size` says
/// nothing about results.
void convert_linear_attention(NodeImport& node) {
  node.integer("chunk_size", 0);
  if (node.integer("state_window", 0) != 0) node.refuse("state_window");
  Recurrence(node).run();
}

/// Gates of recurrences: scale softplus(a + bias), and the sigmoid of b.
void convert_recurrence_gates(NodeImport& node) {
  const NodeInput sum = node.add("add", {node.input(0), node.input(1)});
  node.set_output(0, node.add("mul", {node.add("softplus", {sum}), node.input(2)}));
  if (node.wants(1)) node.set_output(1, node.add("sigmoid", {node.input(3)}));
}

}  // namespace

OnnxConverterList microsoft_state_space_converters() {
  OnnxConverterList list = state_space_converters();
  list.emplace_back("LinearAttentionGate", convert_recurrence_gates);
  return list;
}

OnnxConverterList state_space_converters() {
  return {{"CausalConvWithState", convert_causal_convolution}, {"LinearAttention", convert_linear_attention}};
}

}  // namespace detent
