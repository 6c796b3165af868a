#include "detent/graph/operator_arguments.h"

#include "detent/graph/known_elements.h"
#include "detent/operators/schema.h"

namespace detent {
namespace {

// Recurrent layers as ONNX defines them; the weights of each direction and gate lie one after the other.

struct Kind {
  const char* name;
  const char* help;
  int64_t gates;          // rows of hidden_size in the weights of a direction
  size_t activations;     // functions of a direction
  const char* functions;  // of one direction, unless given
  bool has_cell = false;  // a second state, and weights from it to the gates
};

constexpr Kind kRnn{"rnn", "h = f(W x + Wb + R h + Rb), step after step", 1, 1, "tanh"};
constexpr Kind kGru{"gru", "gated recurrent units (Cho et al. 2014, arXiv:1406.1078); gates z, r, h", 3, 2,
                    "sigmoid tanh"};
constexpr Kind kLstm{"lstm",
                     "long short-term memory (Hochreiter and Schmidhuber 1997); gates i, o, f, c",
                     4,
                     3,
                     "sigmoid tanh tanh",
                     true};

constexpr size_t kFirstState = 5;

bool may_be(int64_t size, int64_t expected) {
  return size == expected || size == kOpenSize || expected == kOpenSize;
}

void expect_shape(std::span<const Operand> inputs, size_t index, const Shape& expected) {
  if (!is_given(inputs, index)) return;
  const Shape& shape = tensor_shape(inputs, index);
  bool fits = shape.size() == expected.size();
  for (size_t d = 0; fits && d < shape.size(); ++d) fits = may_be(shape[d], expected[d]);
  if (!fits) fail("input {} has shape {}, expected {}", index, shape_text(shape), shape_text(expected));
}

void expect_dtypes(std::span<const Operand> inputs) {
  constexpr size_t kLengths = 4;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].is_tensor()) continue;
    const DType dtype = inputs[i].dtype;
    const bool fits =
        i == kLengths ? dtype == DType::kInt32 || dtype == DType::kInt64 : dtype == DType::kFloat32;
    if (!fits) fail("input {} is {}, expected {}", i, dtype_name(dtype), i == kLengths ? "int32" : "float32");
  }
}

/// That of x and of the first states, each of which may be 1 for all samples.
int64_t batch_of(const Node& node, std::span<const Operand> inputs, size_t states) {
  const size_t dim = boolean_attribute(node, "batch_first") ? 0 : 1;
  int64_t batch = tensor_shape(inputs, 0)[dim];
  for (size_t i = kFirstState; i < kFirstState + states; ++i) {
    if (!is_given(inputs, i)) continue;
    const Shape& state = tensor_shape(inputs, i);
    expect_rank(state, 3);
    const int64_t given = state[dim];
    if (batch > 1 && given > 1 && batch != given)
      fail("input {} has {} samples, expected {} or 1", i, given, batch);
    batch = broadcast_shapes({batch}, {given}).front();
  }
  return batch;
}

/// Results: all states of the last layer, and the last of each direction.
std::vector<Operand> infer_recurrent(const Kind& kind, const Node& node, std::span<const Operand> inputs) {
  expect_dtypes(inputs);
  const Shape& x = tensor_shape(inputs, 0);
  expect_rank(x, 3);
  const bool batch_first = boolean_attribute(node, "batch_first");
  const int64_t steps = x[batch_first ? 1 : 0];
  const int64_t batch = batch_of(node, inputs, kind.has_cell ? 2 : 1);
  const int64_t hidden = integer_attribute(node, "hidden_size");
  expect_size("attribute \"hidden_size\"", hidden, 1);
  const int64_t directions = recurrent_directions(node);
  recurrent_activations(node, kind.activations * static_cast<size_t>(directions));
  const Shape state = batch_first ? Shape{batch, directions, hidden} : Shape{directions, batch, hidden};
  expect_shape(inputs, 1, {directions, kind.gates * hidden, x[2]});
  expect_shape(inputs, 2, {directions, kind.gates * hidden, hidden});
  expect_shape(inputs, 3, {directions, 2 * kind.gates * hidden});
  expect_shape(inputs, 4, {batch});
  const Shape first =
      batch_first ? Shape{kOpenSize, directions, hidden} : Shape{directions, kOpenSize, hidden};
  expect_shape(inputs, kFirstState, first);
  if (kind.has_cell) {
    expect_shape(inputs, kFirstState + 1, first);
    expect_shape(inputs, 7, {directions, 3 * hidden});
  }
  const Shape all =
      batch_first ? Shape{batch, steps, directions, hidden} : Shape{steps, directions, batch, hidden};
  std::vector<Operand> results = {{all, Value()}, {state, Value()}};
  if (kind.has_cell) results.push_back({state, Value()});
  return results;
}

OperatorSchema recurrent(const Kind& kind) {
  constexpr size_t kMostInputs = 6;  // x, W, R, biases, lengths, first state
  OperatorSchema schema = {
      .name = kind.name,
      .help = kind.help,
      .min_inputs = 3,
      .max_inputs = kind.has_cell ? kMostInputs + 2 : kMostInputs,
      .attributes = {{"hidden_size", AttributeKind::kInteger, Value(), "elements of the state"},
                     {.name = "direction",
                      .kind = AttributeKind::kChoice,
                      .default_value = "forward",
                      .help = "which way the steps go",
                      .choices = {"forward", "reverse", "bidirectional"}},
                     {"activations", AttributeKind::kText, kind.functions,
                      "functions of each direction, apart by spaces, with numbers after colons"},
                     {"clip", AttributeKind::kNumber, Value(),
                      "bound of what the gates' functions get; NA: none", true},
                     {"batch_first", AttributeKind::kBoolean, false,
                      "samples before steps, as before directions"}},
      .infer_results = [&kind](
                           const Node& node,
                           std::span<const Operand> inputs) { return infer_recurrent(kind, node, inputs); },
      .result_count = [&kind](const Node&) { return size_t{kind.has_cell ? 3U : 2U}; },
      .dtypes = DTypeRule::kOwn,
      .takes_open_sizes = true,
      .optional_operands = {"data_in_3", "data_in_4", "data_in_5"},
      .reduction_dims = {{"data_in_0", -1}, {"data_in_1", -1}, {"data_in_2", -1}},
      .quantizable = true,
      .index_operands = {"data_in_4"}};
  if (kind.has_cell)
    schema.optional_operands.insert(schema.optional_operands.end(), {"data_in_6", "data_in_7"});
  return schema;
}

}  // namespace

std::vector<OperatorSchema> recurrent_operators() {
  std::vector<OperatorSchema> list = {recurrent(kRnn), recurrent(kGru), recurrent(kLstm)};
  list[1].attributes.push_back({"linear_before_reset", AttributeKind::kBoolean, false,
                                "the reset gate scales the product with the state instead of the state"});
  list[2].attributes.push_back(
      {"input_forget", AttributeKind::kBoolean, false, "the forget gate is 1 less the input gate"});
  return list;
}

}  // namespace detent
