#include "case.h"

namespace detent {
namespace {

struct Cell {
  int64_t gates;
  int64_t functions;  // in each direction
  bool has_cell_state = false;
};

Cell cell_of(const std::string& op) {
  if (op == "LSTM") return {4, 3, true};
  return op == "GRU" ? Cell{3, 2} : Cell{1, 1};
}

void write_recurrent(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const Cell cell = cell_of(op);
  const int64_t steps = random.between(1, 4);
  const int64_t batch = random.between(1, 3);
  const int64_t size = random.between(1, 3);
  const int64_t hidden = random.between(1, 3);
  const std::string direction = random.of({"forward", "forward", "reverse", "bidirectional"});
  const int64_t directions = direction == "bidirectional" ? 2 : 1;
  const bool is_batch_first = writer.is_at_least(14) && random.chance(0.04);  // ONNX Runtime has none
  const auto operand = [&](const Shape& shape) {
    return writer.operand(
        {.dtypes = {writer.real}, .shape = shape, .content = Content::kUnit, .most_magnitude = 4});
  };
  const Shape of_states =
      is_batch_first ? Shape{batch, directions, hidden} : Shape{directions, batch, hidden};
  std::vector<GeneratedValue> inputs = {
      operand(is_batch_first ? Shape{batch, steps, size} : Shape{steps, batch, size}),
      operand({directions, cell.gates * hidden, size}), operand({directions, cell.gates * hidden, hidden})};
  inputs.push_back(random.chance(0.6) ? operand({directions, 2 * cell.gates * hidden})
                                      : GraphWriter::absent());
  GeneratedValue lengths = GraphWriter::absent();
  if (random.chance(0.3)) {
    std::vector<int64_t> numbers;
    for (int64_t i = 0; i < batch; ++i) numbers.push_back(random.between(1, steps));
    lengths = writer.list(numbers, DType::kInt32);
  }
  inputs.push_back(lengths);
  inputs.push_back(random.chance(0.4) ? operand(of_states) : GraphWriter::absent());
  if (cell.has_cell_state) {
    inputs.push_back(random.chance(0.4) ? operand(of_states) : GraphWriter::absent());
    inputs.push_back(random.chance(0.3) ? operand({directions, 3 * hidden}) : GraphWriter::absent());
  }
  std::vector<OnnxAttribute> attributes = {{"hidden_size", hidden}};
  if (direction != "forward" || random.chance(0.3)) attributes.emplace_back("direction", direction.c_str());
  if (is_batch_first) attributes.emplace_back("layout", 1);
  if (random.chance(0.2)) attributes.emplace_back("clip", 0.5F);
  if (op == "GRU" && random.chance(0.5)) attributes.emplace_back("linear_before_reset", 1);
  if (op == "LSTM" && random.chance(0.15)) attributes.emplace_back("input_forget", 1);
  if (random.chance(0.25)) {
    std::vector<std::string> names;
    for (int64_t i = 0; i < directions * cell.functions; ++i)
      names.push_back(random.of({"Tanh", "Sigmoid", "Relu", "Softsign"}));
    attributes.emplace_back("activations", names);
  }
  const Numbers numbers{64, 0, 1e-4};
  const Shape all =
      is_batch_first ? Shape{batch, steps, directions, hidden} : Shape{steps, directions, batch, hidden};
  std::vector<Result> results = {{writer.real, all, numbers}};
  if (random.chance(0.7)) results.push_back({writer.real, of_states, numbers});
  if (results.size() == 2 && cell.has_cell_state && random.chance(0.7))
    results.push_back({writer.real, of_states, numbers});
  writer.node(op, inputs, attributes, results);
}

}  // namespace

std::vector<OperatorGenerator> recurrent_generators() {
  return {{"RNN", 7, write_recurrent}, {"GRU", 7, write_recurrent}, {"LSTM", 7, write_recurrent}};
}

}  // namespace detent
