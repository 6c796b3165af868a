#include "case.h"

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

/// An exact value of just this shape.
GeneratedValue exact(GraphWriter& writer, const Shape& shape, double most = 8) {
  return writer.operand({.dtypes = {writer.real},
                         .shape = shape,
                         .must_be_exact = true,
                         .may_be_empty = false,
                         .most_magnitude = most});
}

/// A norm of a sum, where what is divided by a deviation is not far from it.
void write_skip_norm(GraphWriter& writer, const std::string& op) {
  writer.real = DType::kFloat32;
  constexpr double kSlope = 64;
  Random& random = writer.random;
  const Shape shape = {random.between(1, 2), random.between(1, 3), random.between(2, 4)};
  const bool is_layer = op == "SkipLayerNormalization";
  std::vector<GeneratedValue> inputs = {exact(writer, shape), exact(writer, shape),
                                        exact(writer, {shape[2]})};
  if (is_layer) inputs.push_back(random.chance(0.5) ? exact(writer, {shape[2]}) : GraphWriter::absent());
  Numbers numbers = sum(inputs[0].numbers, inputs[1].numbers);
  if (random.chance(0.5)) {
    inputs.push_back(exact(writer, {shape[2]}));
    numbers = sum(numbers, inputs.back().numbers);
  }
  writer.node(op, inputs, {{"epsilon", random.of({1e-3F, 0.5F})}},
              {writer.real, shape, function_of(numbers, kSlope, 256)}, kDomain);
}

/// A convolution, what is added, and a function that does not jump.
void write_fused_conv(GraphWriter& writer, const std::string& op) {
  writer.real = DType::kFloat32;
  Random& random = writer.random;
  const int64_t channels = random.between(1, 3);
  const int64_t outputs = random.between(1, 3);
  const int64_t kernel = random.between(1, 2);
  const Shape shape = {random.between(1, 2), channels, random.between(2, 4), random.between(2, 4)};
  std::vector<GeneratedValue> inputs = {exact(writer, shape),
                                        exact(writer, {outputs, channels, kernel, kernel})};
  const Shape result = {shape[0], outputs, shape[2] - kernel + 1, shape[3] - kernel + 1};
  const bool adds = random.chance(0.4);
  inputs.push_back(adds || random.chance(0.5) ? exact(writer, {outputs}) : GraphWriter::absent());
  if (adds) inputs.push_back(exact(writer, result));
  const auto count = static_cast<double>(channels * kernel * kernel + 2);
  Numbers numbers = sum_of(product(inputs[0].numbers, inputs[1].numbers), count);
  numbers.magnitude += 16;
  std::vector<OnnxAttribute> attributes = {{"kernel_shape", std::vector<int64_t>{kernel, kernel}}};
  const std::string function = random.of<std::string>({"Relu", "Tanh", "Sigmoid", "LeakyRelu", "Clip"});
  attributes.emplace_back("activation", function.c_str());
  if (function == "LeakyRelu") attributes.emplace_back("activation_params", std::vector<float>{0.25F});
  if (function == "Clip") attributes.emplace_back("activation_params", std::vector<float>{-1, 2});
  writer.node(op, inputs, attributes, {writer.real, result, function_of(numbers, 1, numbers.magnitude)},
              kDomain);
}

/// Magnitudes of 1 at most, so that shares of a softmax are not steep.
GeneratedValue small_parts(GraphWriter& writer, const Shape& shape) { return exact(writer, shape, 4); }

Numbers mean_of_values(const Numbers& values, double size) {
  return function_of(values, 1, 4 * size * std::max(values.magnitude, 1.0));
}

void write_multi_head_attention(GraphWriter& writer, const std::string& op) {
  writer.real = DType::kFloat32;
  Random& random = writer.random;
  const int64_t heads = random.between(1, 2);
  const int64_t size = random.between(1, 3);
  const int64_t batch = random.between(1, 2);
  const int64_t queries = random.between(1, 3);
  const int64_t keys = random.between(1, 4);
  const int64_t past = random.chance(0.3) ? random.between(1, 2) : 0;
  std::vector<GeneratedValue> inputs = {small_parts(writer, {batch, queries, heads * size}),
                                        small_parts(writer, {batch, keys, heads * size}),
                                        small_parts(writer, {batch, keys, heads * size})};
  const Numbers values = inputs[2].numbers;
  inputs.push_back(random.chance(0.5) ? small_parts(writer, {3 * heads * size}) : GraphWriter::absent());
  if (random.chance(0.5)) {
    Tensor mask(DType::kInt32, {batch, keys + past});
    for (int32_t& seen : mask.values<int32_t>()) seen = random.chance(0.7) ? 1 : 0;
    inputs.push_back(writer.constant(mask));
  } else {
    inputs.push_back(GraphWriter::absent());
  }
  inputs.push_back(random.chance(0.4)
                       ? small_parts(writer, {random.of<int64_t>({1, batch}), heads, queries, keys + past})
                       : GraphWriter::absent());
  std::vector<Result> results = {{writer.real, {batch, queries, heads * size}, mean_of_values(values, 8)}};
  if (past > 0) {
    for (size_t i = 0; i < 2; ++i) inputs.push_back(small_parts(writer, {batch, heads, past, size}));
    for (size_t i = 0; i < 2; ++i)
      results.push_back({writer.real, {batch, heads, keys + past, size}, {16, 0, 1e-5}});
  }
  std::vector<OnnxAttribute> attributes = {{"num_heads", heads}};
  if (random.chance(0.3)) attributes.emplace_back("scale", 0.25F);
  if (random.chance(0.3) && queries == keys) attributes.emplace_back("unidirectional", 1);
  writer.node(op, inputs, attributes, results, kDomain);
}

void write_projected_attention(GraphWriter& writer, const std::string& op) {
  writer.real = DType::kFloat32;
  Random& random = writer.random;
  const int64_t heads = random.between(1, 2);
  const int64_t columns = heads * random.between(1, 2);
  const Shape shape = {random.between(1, 2), random.between(1, 3), random.between(1, 3)};
  Tensor matrix(DType::kFloat32, {shape[2], 3 * columns});
  for (float& value : matrix.values<float>()) value = random.of({-0.5F, 0.25F, 0.5F, 1.0F});
  const GeneratedValue x = exact(writer, shape, 2);
  std::vector<GeneratedValue> inputs = {x, writer.constant(matrix, {1, 0.25}),
                                        exact(writer, {3 * columns}, 2)};
  if (random.chance(0.5)) {
    Tensor ends(DType::kInt32, {shape[0]});
    for (int32_t& end : ends.values<int32_t>()) end = static_cast<int32_t>(random.between(1, shape[1]));
    inputs.push_back(writer.constant(ends));
  }
  std::vector<OnnxAttribute> attributes = {{"num_heads", heads}};
  if (random.chance(0.4)) attributes.emplace_back("unidirectional", 1);
  Numbers numbers = sum_of(x.numbers, static_cast<double>(shape[2] + 1));
  writer.node(op, inputs, attributes,
              {writer.real, {shape[0], shape[1], columns}, mean_of_values(numbers, 8)}, kDomain);
}

/// Any numbers stand for cosines and sines.
void write_rotary(GraphWriter& writer, const std::string& op) {
  writer.real = DType::kFloat32;
  Random& random = writer.random;
  const int64_t heads = random.between(1, 2);
  const int64_t half = random.between(1, 3);
  const int64_t places = random.between(3, 5);
  const Shape shape = {random.between(1, 2), random.between(1, 3), heads * 2 * half};
  const GeneratedValue x = exact(writer, shape);
  const GeneratedValue turns[] = {exact(writer, {places, half}, 1), exact(writer, {places, half}, 1)};
  const bool has_offset = random.chance(0.5);
  Tensor ids(DType::kInt64, has_offset ? Shape{1} : Shape{shape[0], shape[1]});
  const int64_t last = has_offset ? places - shape[1] : places - 1;
  for (int64_t& id : ids.values<int64_t>()) id = random.between(0, last);
  Numbers numbers = sum(product(x.numbers, turns[0].numbers), product(x.numbers, turns[1].numbers));
  numbers.is_positive = false;
  writer.node(op, {x, writer.constant(ids), turns[0], turns[1]}, {{"interleaved", random.of({0, 1})}},
              {writer.real, shape, numbers}, kDomain);
}

/// A prompt, or one token after a cache.
void write_grouped_attention(GraphWriter& writer, const std::string& op) {
  writer.real = DType::kFloat32;
  Random& random = writer.random;
  constexpr int64_t kSize = 8;  // ONNX Runtime takes multiples of it
  const int64_t of_keys = random.between(1, 2);
  const int64_t heads = of_keys * random.between(1, 2);
  const int64_t past = random.chance(0.5) ? random.between(1, 3) : 0;
  const int64_t length = past > 0 ? 1 : random.between(1, 4);
  const int64_t batch = random.between(1, 2);
  std::vector<GeneratedValue> inputs = {small_parts(writer, {batch, length, heads * kSize}),
                                        small_parts(writer, {batch, length, of_keys * kSize}),
                                        small_parts(writer, {batch, length, of_keys * kSize})};
  const Numbers values = inputs[2].numbers;
  const Shape cache = {batch, of_keys, past, kSize};
  for (size_t i = 0; i < 2; ++i)
    inputs.push_back(past > 0 ? small_parts(writer, cache) : GraphWriter::absent());
  Tensor lasts(DType::kInt32, {batch});
  std::ranges::fill(lasts.values<int32_t>(), static_cast<int32_t>(past + length - 1));
  inputs.push_back(writer.constant(lasts));
  inputs.push_back(writer.scalar(past + length, DType::kInt32));
  std::vector<OnnxAttribute> attributes = {{"num_heads", heads}, {"kv_num_heads", of_keys}};
  if (random.chance(0.3)) attributes.emplace_back("scale", 0.25F);
  if (random.chance(0.3)) attributes.emplace_back("local_window_size", random.between(1, 3));
  if (random.chance(0.3)) attributes.emplace_back("softcap", 4.0F);
  const Shape present = {batch, of_keys, past + length, kSize};
  writer.node(op, inputs, attributes,
              {{writer.real, {batch, length, heads * kSize}, mean_of_values(values, 16)},
               {writer.real, present, {16, 0, 1e-5}},
               {writer.real, present, {16, 0, 1e-5}}},
              kDomain);
}

GeneratedValue ids_below(GraphWriter& writer, const Shape& shape, int64_t limit) {
  Tensor ids(DType::kInt32, shape);
  for (int32_t& id : ids.values<int32_t>()) id = static_cast<int32_t>(writer.random.between(0, limit - 1));
  return writer.constant(ids);
}

void write_embedding_norm(GraphWriter& writer, const std::string& op) {
  writer.real = DType::kFloat32;
  Random& random = writer.random;
  const Shape ids = {random.between(1, 2), random.between(1, 3)};
  const int64_t columns = random.between(2, 4);
  const bool has_segments = random.chance(0.5);
  const GeneratedValue words = exact(writer, {5, columns});
  const GeneratedValue places = exact(writer, {ids[1] + random.between(0, 2), columns});
  const GeneratedValue segments = has_segments ? exact(writer, {2, columns}) : GraphWriter::absent();
  Numbers numbers = sum(words.numbers, places.numbers);
  if (has_segments) numbers = sum(numbers, segments.numbers);
  std::vector<GeneratedValue> inputs = {ids_below(writer, ids, 5),
                                        has_segments ? ids_below(writer, ids, 2) : GraphWriter::absent(),
                                        words,
                                        places,
                                        segments,
                                        exact(writer, {columns}),
                                        exact(writer, {columns})};
  inputs.push_back(ids_below(writer, ids, 2));  // a mask, for ONNX Runtime counts what it leaves even so
  const std::vector<Result> results = {
      {writer.real, {ids[0], ids[1], columns}, function_of(numbers, 64, 256)},
      {DType::kInt32, {ids[0]}, {static_cast<double>(ids[1]), 1}}};
  writer.node(op, inputs, {{"epsilon", random.of({1e-3F, 0.5F})}}, results, kDomain);
}

void write_matmul_of_blocks(GraphWriter& writer, const std::string& op) {
  writer.real = DType::kFloat32;
  Random& random = writer.random;
  constexpr int64_t kBlock = 16;
  const int64_t bits = random.of<int64_t>({2, 4, 8});
  const int64_t outputs = random.between(1, 3);
  const int64_t inner = random.of<int64_t>({8, 16, 20, 32});
  const int64_t blocks = (inner + kBlock - 1) / kBlock;
  Tensor bytes(DType::kUInt8, {outputs, blocks, kBlock * bits / 8});
  for (uint8_t& byte : bytes.values<uint8_t>()) byte = static_cast<uint8_t>(random.between(0, 255));
  Tensor scales(DType::kFloat32, {outputs, blocks});
  for (float& scale : scales.values<float>()) scale = random.of({0.25F, 0.5F, 1.0F});
  const GeneratedValue x = exact(writer, {random.between(1, 3), inner});
  std::vector<GeneratedValue> inputs = {x, writer.constant(bytes), writer.constant(scales)};
  if (random.chance(0.5)) {
    Tensor zeros(DType::kUInt8, {outputs, (blocks * bits + 7) / 8});
    for (uint8_t& byte : zeros.values<uint8_t>()) byte = static_cast<uint8_t>(random.between(0, 255));
    inputs.push_back(writer.constant(zeros));
  }
  const Numbers numbers =
      sum_of(product(x.numbers, {std::ldexp(1, static_cast<int>(bits)), 0.25}), static_cast<double>(inner));
  writer.node(op, inputs, {{"K", inner}, {"N", outputs}, {"bits", bits}, {"block_size", kBlock}},
              {writer.real, {x.shape[0], outputs}, rounded({numbers.magnitude, 0, numbers.error}, 4)},
              kDomain);
}

}  // namespace

std::vector<OperatorGenerator> microsoft_generators() {
  return {{"Gelu", 13, write_microsoft_gelu},
          {"BiasGelu", 13, write_microsoft_gelu},
          {"FastGelu", 13, write_microsoft_gelu},
          {"QuickGelu", 13, write_microsoft_gelu},
          {"FusedMatMul", 13, write_fused_matmul},
          {"SkipLayerNormalization", 17, write_skip_norm},
          {"SkipSimplifiedLayerNormalization", 17, write_skip_norm},
          {"FusedConv", 13, write_fused_conv},
          {"MultiHeadAttention", 17, write_multi_head_attention},
          {"Attention", 17, write_projected_attention, 22},
          {"RotaryEmbedding", 17, write_rotary, 22},
          {"GroupQueryAttention", 17, write_grouped_attention},
          {"EmbedLayerNormalization", 17, write_embedding_norm},
          {"MatMulNBits", 17, write_matmul_of_blocks}};
}

}  // namespace detent
