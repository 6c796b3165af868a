#include "operator_generators.h"

// Operators of ONNX Runtime's own domain.

namespace detent {
namespace {

const char* const kDomain = "com.microsoft";

void write_microsoft_gelu(GraphWriter& writer, const std::string& op) {
  const GeneratedValue x =
      writer.operand({.dtypes = {writer.real}, .least_rank = 1, .may_be_empty = false, .most_magnitude = 64});
  std::vector<GeneratedValue> inputs = {x};
  if (op == "BiasGelu")
    inputs.push_back(
        writer.operand({.dtypes = {writer.real}, .shape = Shape{x.shape.back()}, .most_magnitude = 64}));
  const Numbers numbers = op == "BiasGelu" ? sum(x.numbers, inputs[1].numbers) : x.numbers;
  // FastGelu's tanh and its cube are float32's.
  writer.node(op, inputs, {}, {x.dtype, x.shape, function_of(numbers, 2, 16 * numbers.magnitude)}, kDomain);
}

void write_fused_matmul(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const GeneratedValue a = writer.operand({.dtypes = {writer.real},
                                           .least_rank = 2,
                                           .most_rank = 3,
                                           .may_be_empty = false,
                                           .most_magnitude = 256});
  const bool turns_a = random.chance(0.4);
  const bool turns_b = random.chance(0.4);
  Shape of_b = a.shape;
  const size_t last = of_b.size() - 1;
  const int64_t inner = a.shape[turns_a ? last - 1 : last];
  const int64_t columns = random.between(1, 4);
  of_b[last - 1] = turns_b ? columns : inner;
  of_b[last] = turns_b ? inner : columns;
  const GeneratedValue b = writer.operand({.dtypes = {writer.real}, .shape = of_b, .most_magnitude = 256});
  Shape shape = a.shape;
  shape[last - 1] = a.shape[turns_a ? last : last - 1];
  shape[last] = columns;
  std::vector<OnnxAttribute> attributes = {{"transA", turns_a ? 1 : 0}, {"transB", turns_b ? 1 : 0}};
  if (random.chance(0.5)) attributes.emplace_back("alpha", random.of({0.5F, 2.0F, -1.0F}));
  Numbers numbers = product(sum_of(product(a.numbers, b.numbers), static_cast<double>(inner)), {2, 0.5});
  numbers.is_positive = false;
  writer.node(op, {a, b}, attributes, {a.dtype, shape, numbers}, kDomain);
}

}  // namespace

std::vector<OperatorGenerator> microsoft_generators() {
  return {{"Gelu", 13, write_microsoft_gelu},
          {"BiasGelu", 13, write_microsoft_gelu},
          {"FastGelu", 13, write_microsoft_gelu},
          {"QuickGelu", 13, write_microsoft_gelu},
          {"FusedMatMul", 13, write_fused_matmul}};
}

}  // namespace detent
