#include "case.h"

// Branches and loops, whose bodies are graphs.

namespace detent {
namespace {

onnx::ValueInfoProto typed(const std::string& name, DType dtype) {
  return output_info({.name = name, .dtype = dtype});
}

/// ONNX Runtime wants to be told of what a loop counts, and of a condition.
void state_no_dimensions(onnx::ValueInfoProto& number) {
  number.mutable_type()->mutable_tensor_type()->mutable_shape();
}

Tensor truth(Random& random, bool value) {
  Tensor condition(DType::kBool, random.chance(0.7) ? Shape{} : Shape{1});
  condition.values<bool>()[0] = value;
  return condition;
}

/// A branch that is known, or chosen at run time.
void write_branch(GraphWriter& writer, const std::string& op) {
  const GeneratedValue x = writer.operand({.dtypes = {writer.real}, .may_be_wild = true});
  const auto branch = [&](const char* name, const char* of) {
    onnx::GraphProto graph;
    graph.set_name(name);
    const std::string inner = x.name + "_" + name;
    *graph.add_node() = onnx_node(of, {x.name}, {inner});
    *graph.add_output() = typed(inner, x.dtype);
    return graph;
  };
  const Tensor condition = truth(writer.random, writer.random.chance(0.5));
  const GeneratedValue given =
      writer.random.chance(0.5) ? writer.constant(condition, {1, 1}) : writer.input_of(condition, {1, 1});
  Numbers numbers = x.numbers;
  numbers.is_positive = false;
  writer.read(x);
  writer.node(op, {given}, {{"then_branch", branch("then", "Neg")}, {"else_branch", branch("else", "Abs")}},
              {x.dtype, x.shape, numbers});
}

Numbers repeated_sum(const Numbers& numbers, int64_t times) {
  Numbers total = numbers;
  for (int64_t i = 0; i < times; ++i) total = sum(total, numbers);
  return total;
}

/// Adds x to what it carries; gives each of these sums. The number of iterations is known, or comes with a
/// run.
void write_loop(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const GeneratedValue x =
      writer.operand({.dtypes = {writer.real}, .must_be_exact = true, .most_magnitude = 64});
  const int64_t most = random.between(1, 4);
  const std::string tag = x.name + "_loop";
  const bool ends_at_run_time = random.chance(0.3);
  const bool ends_early = !ends_at_run_time && random.chance(0.4);
  const int64_t last = random.between(0, 4);
  onnx::GraphProto body;
  body.set_name("body");
  *body.add_input() = typed(tag + "_i", DType::kInt64);
  state_no_dimensions(*body.mutable_input(0));
  *body.add_input() = typed(tag + "_go", DType::kBool);
  *body.add_input() = typed(tag + "_before", x.dtype);
  *body.add_node() = onnx_node("Add", {tag + "_before", x.name}, {tag + "_after"});
  int64_t iterations = most;
  if (ends_at_run_time) {
    const bool again = random.chance(0.5);
    const GeneratedValue go = writer.input_of(truth(random, again), {1, 1});
    writer.read(go);
    *body.add_node() = onnx_node("Identity", {go.name}, {tag + "_again"});
    if (!again) iterations = 1;
  } else if (ends_early) {
    const GeneratedValue bound = writer.constant(Tensor::from<int64_t>({}, {last}), {8, 1});
    writer.read(bound);
    *body.add_node() = onnx_node("Less", {tag + "_i", bound.name}, {tag + "_again"});
    iterations = std::min(most, last + 1);
  } else {
    *body.add_node() = onnx_node("Identity", {tag + "_go"}, {tag + "_again"});
  }
  *body.add_output() = typed(tag + "_again", DType::kBool);
  *body.add_output() = typed(tag + "_after", x.dtype);
  const bool collects = random.chance(ends_at_run_time ? 0.3 : 0.6);
  if (collects) {
    *body.add_node() = onnx_node("Neg", {tag + "_after"}, {tag + "_part"});
    *body.add_output() = typed(tag + "_part", x.dtype);
  }
  const Tensor times = Tensor::from<int64_t>({}, {most});
  const GeneratedValue count =
      random.chance(0.3) ? writer.input_of(times, {8, 1}) : writer.constant(times, {8, 1});
  const bool has_condition = random.chance(0.5);
  const Tensor starts = truth(random, true);
  const GeneratedValue go = has_condition ? writer.constant(starts, {1, 1}) : GraphWriter::absent();
  if (!has_condition || starts.shape().empty()) state_no_dimensions(*body.mutable_input(1));
  const Numbers numbers = repeated_sum(x.numbers, iterations);
  std::vector<Result> results = {{x.dtype, x.shape, numbers}};
  Shape all = x.shape;
  all.insert(all.begin(), iterations);
  Numbers negative = numbers;
  negative.is_positive = false;
  if (collects) results.push_back({x.dtype, all, negative});
  writer.read(x);
  writer.node(op, {count, go, x}, {{"body", body}}, results);
}

/// Sums along an axis, and each on the way.
void write_scan(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const GeneratedValue x = writer.operand({.dtypes = {writer.real},
                                           .least_rank = 1,
                                           .must_be_exact = true,
                                           .may_be_empty = false,
                                           .most_magnitude = 64});
  const int64_t axis = writer.axis(x.rank());
  const auto at = static_cast<size_t>(normal_axis(axis, x.rank()));
  const int64_t length = x.shape[at];
  Shape rest = x.shape;
  rest.erase(rest.begin() + static_cast<int64_t>(at));
  const GeneratedValue start = writer.constant(Tensor(x.dtype, rest), {1, 1});
  const std::string tag = x.name + "_scan";
  onnx::GraphProto body;
  body.set_name("body");
  *body.add_input() = typed(tag + "_before", x.dtype);
  *body.add_input() = typed(tag + "_part", x.dtype);
  *body.add_node() = onnx_node("Add", {tag + "_before", tag + "_part"}, {tag + "_after"});
  *body.add_node() = onnx_node("Neg", {tag + "_after"}, {tag + "_negative"});
  *body.add_output() = typed(tag + "_after", x.dtype);
  *body.add_output() = typed(tag + "_negative", x.dtype);
  const int64_t out_axis = writer.axis(x.rank());
  Shape all = rest;
  all.insert(all.begin() + normal_axis(out_axis, x.rank()), length);
  Numbers numbers = repeated_sum(x.numbers, length);
  numbers.is_positive = false;
  writer.node(op, {start, x},
              {{"body", body},
               {"num_scan_inputs", 1},
               {"scan_input_axes", std::vector<int64_t>{axis}},
               {"scan_input_directions", std::vector<int64_t>{random.between(0, 1)}},
               {"scan_output_axes", std::vector<int64_t>{out_axis}},
               {"scan_output_directions", std::vector<int64_t>{random.between(0, 1)}}},
              {{x.dtype, rest, numbers}, {x.dtype, all, numbers}});
}

}  // namespace

std::vector<OperatorGenerator> subgraph_generators() {
  return {{"If", 11, write_branch}, {"Loop", 11, write_loop}, {"Scan", 11, write_scan}};
}

}  // namespace detent
