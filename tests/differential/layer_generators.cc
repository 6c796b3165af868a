#include <algorithm>
#include <numeric>

#include "case.h"

namespace detent {
namespace {

constexpr double kMostMagnitude = 0x1p12;  // magnitude of what layers add up

Shape sizes(Random& random, int64_t count, int64_t least, int64_t most) {
  Shape result(static_cast<size_t>(count));
  for (int64_t& size : result) size = random.between(least, most);
  return result;
}

int64_t product_of(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

/// Window of a convolution, drawn so that it has a place in the input.
struct Window {
  Shape kernel;
  Shape stride;
  Shape dilation;
  Shape before;
  Shape after;
  std::vector<OnnxAttribute> attributes;
};

Window window(GraphWriter& writer, int64_t dims, const Shape& input) {
  Random& random = writer.random;
  Window result{
      sizes(random, dims, 1, 3), sizes(random, dims, 1, 2), Shape(static_cast<size_t>(dims), 1), {}, {}, {}};
  if (random.chance(0.3)) result.dilation = sizes(random, dims, 1, 2);
  if (random.chance(0.2)) result.stride = sizes(random, dims, 1, 4);
  const std::string automatic =
      random.chance(0.25) ? random.of({"SAME_UPPER", "SAME_LOWER", "VALID"}) : "NOTSET";
  for (size_t i = 0; i < result.kernel.size(); ++i) {
    const int64_t size = input[i + 2];
    if (automatic.starts_with("SAME")) result.dilation[i] = 1;  // which ONNX Runtime refuses
    while ((result.kernel[i] - 1) * result.dilation[i] + 1 > size) {
      result.dilation[i] = 1;
      if (result.kernel[i] > size) result.kernel[i] = size;
    }
    const int64_t span = (result.kernel[i] - 1) * result.dilation[i] + 1;
    result.before.push_back(automatic == "NOTSET" ? random.between(0, 2) : 0);
    result.after.push_back(
        automatic == "NOTSET" ? (random.chance(0.7) ? result.before[i] : random.between(0, 2)) : 0);
    if (!automatic.starts_with("SAME")) continue;
    const int64_t count = (size + result.stride[i] - 1) / result.stride[i];
    const int64_t border = std::max<int64_t>((count - 1) * result.stride[i] + span - size, 0);
    result.before[i] = automatic == "SAME_UPPER" ? border / 2 : border - border / 2;
    result.after[i] = border - result.before[i];
  }
  if (automatic != "NOTSET" || random.chance(0.1))
    result.attributes.emplace_back("auto_pad", automatic.c_str());
  if (automatic == "NOTSET" &&
      (product_of(result.before) + product_of(result.after) > 0 || random.chance(0.7))) {
    Shape pads = result.before;
    pads.insert(pads.end(), result.after.begin(), result.after.end());
    result.attributes.emplace_back("pads", pads);
  } else if (automatic == "NOTSET") {
    result.before = result.after = Shape(static_cast<size_t>(dims), 0);
  }
  if (random.chance(0.7) || std::ranges::any_of(result.stride, [](int64_t s) { return s != 1; }))
    result.attributes.emplace_back("strides", result.stride);
  if (!automatic.starts_with("SAME") &&
      std::ranges::any_of(result.dilation, [](int64_t d) { return d != 1; }))
    result.attributes.emplace_back("dilations", result.dilation);
  if (random.chance(0.6)) result.attributes.emplace_back("kernel_shape", result.kernel);
  return result;
}

void write_conv(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const int64_t dims = random.of<int64_t>({1, 2, 2, 2, 3});
  const int64_t groups = random.of<int64_t>({1, 1, 2, 3});
  const int64_t channels = groups * random.between(1, 2);
  Shape shape = {random.between(1, 2), channels};
  const Shape image = sizes(random, dims, 1, 5);
  shape.insert(shape.end(), image.begin(), image.end());
  const GeneratedValue x =
      writer.operand({.dtypes = {writer.real}, .shape = shape, .most_magnitude = kMostMagnitude});
  Window drawn = window(writer, dims, shape);
  const int64_t outputs = groups * random.between(1, 3);
  Shape of_weight = {outputs, channels / groups};
  of_weight.insert(of_weight.end(), drawn.kernel.begin(), drawn.kernel.end());
  const GeneratedValue weight =
      writer.operand({.dtypes = {writer.real}, .shape = of_weight, .most_magnitude = kMostMagnitude});
  GeneratedValue bias = GraphWriter::absent();
  if (random.chance(0.6))
    bias =
        writer.operand({.dtypes = {writer.real}, .shape = Shape{outputs}, .most_magnitude = kMostMagnitude});
  if (groups != 1 || random.chance(0.3)) drawn.attributes.emplace_back("group", groups);
  Shape result = {shape[0], outputs};
  for (size_t i = 0; i < drawn.kernel.size(); ++i)
    result.push_back(
        (image[i] + drawn.before[i] + drawn.after[i] - (drawn.kernel[i] - 1) * drawn.dilation[i] - 1) /
            drawn.stride[i] +
        1);
  Numbers numbers =
      sum_of(product(x.numbers, weight.numbers), static_cast<double>(product_of(of_weight) / outputs));
  if (!bias.name.empty()) numbers = sum(numbers, bias.numbers);
  numbers.is_positive = false;
  writer.node(op, {x, weight, bias}, drawn.attributes, {x.dtype, result, numbers});
}

void write_transposed(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const int64_t dims = random.of<int64_t>({1, 2, 2, 3});
  const int64_t groups = random.of<int64_t>({1, 1, 2});
  const int64_t channels = groups * random.between(1, 2);
  const Shape image = sizes(random, dims, 1, 4);
  Shape shape = {random.between(1, 2), channels};
  shape.insert(shape.end(), image.begin(), image.end());
  const GeneratedValue x =
      writer.operand({.dtypes = {writer.real}, .shape = shape, .most_magnitude = kMostMagnitude});
  const Shape kernel = sizes(random, dims, 1, 3);
  const Shape stride = sizes(random, dims, 1, 3);
  const Shape dilation =
      random.chance(0.25) ? sizes(random, dims, 1, 2) : Shape(static_cast<size_t>(dims), 1);
  Shape extra(static_cast<size_t>(dims), 0);
  Shape pads(static_cast<size_t>(2 * dims), 0);
  Shape result = {shape[0], groups * random.between(1, 2)};
  Shape spatial;
  std::vector<OnnxAttribute> attributes;
  const bool has_shape = random.chance(0.25);
  const bool has_extra = random.chance(0.3);
  // Where a window is smaller than its stride, ONNX Runtime's result is smaller than ONNX's.
  bool is_same = !has_shape && random.chance(0.15);
  for (size_t i = 0; i < kernel.size(); ++i)
    is_same = is_same && (kernel[i] - 1) * dilation[i] + 1 >= stride[i];
  for (size_t i = 0; i < kernel.size(); ++i) {
    if (has_extra && !is_same) extra[i] = random.between(0, std::max(stride[i], dilation[i]) - 1);
    const int64_t full = stride[i] * (image[i] - 1) + extra[i] + (kernel[i] - 1) * dilation[i] + 1;
    if (has_shape) {
      spatial.push_back(
          random.between(std::max<int64_t>(1, full - 2), full + random.between(0, stride[i] - 1)));
      continue;
    }
    if (is_same) {
      spatial.push_back(image[i] * stride[i]);
      continue;
    }
    if (full > 3) {
      pads[i] = random.between(0, 1);
      pads[i + kernel.size()] = random.between(0, 1);
    }
    spatial.push_back(full - pads[i] - pads[i + kernel.size()]);
  }
  if (has_shape) attributes.emplace_back("output_shape", spatial);
  if (is_same || (has_shape && random.chance(0.5)))
    attributes.emplace_back("auto_pad", random.of({"SAME_UPPER", "SAME_LOWER"}));
  if (!has_shape && !is_same) attributes.emplace_back("pads", pads);
  if (has_extra) attributes.emplace_back("output_padding", extra);
  attributes.emplace_back("strides", stride);
  if (std::ranges::any_of(dilation, [](int64_t d) { return d != 1; }))
    attributes.emplace_back("dilations", dilation);
  if (groups != 1) attributes.emplace_back("group", groups);
  if (random.chance(0.5)) attributes.emplace_back("kernel_shape", kernel);
  Shape of_weight = {channels, result[1] / groups};
  of_weight.insert(of_weight.end(), kernel.begin(), kernel.end());
  result.insert(result.end(), spatial.begin(), spatial.end());
  const GeneratedValue weight =
      writer.operand({.dtypes = {writer.real}, .shape = of_weight, .most_magnitude = kMostMagnitude});
  GeneratedValue bias = GraphWriter::absent();
  if (random.chance(0.6))
    bias = writer.operand(
        {.dtypes = {writer.real}, .shape = Shape{result[1]}, .most_magnitude = kMostMagnitude});
  Numbers numbers =
      sum_of(product(x.numbers, weight.numbers), static_cast<double>(channels * product_of(kernel)));
  if (!bias.name.empty()) numbers = sum(numbers, bias.numbers);
  numbers.is_positive = false;
  writer.node(op, {x, weight, bias}, attributes, {x.dtype, result, numbers});
}

void write_gemm(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const GeneratedValue a = writer.operand(
      {.dtypes = {writer.real}, .least_rank = 2, .most_rank = 2, .most_magnitude = kMostMagnitude});
  const bool turns_a = random.chance(0.3);
  const bool turns_b = random.chance(0.4);
  const int64_t inner = a.shape[turns_a ? 0 : 1];
  const int64_t rows = a.shape[turns_a ? 1 : 0];
  const int64_t columns = random.between(1, 4);
  const GeneratedValue b = writer.operand({.dtypes = {writer.real},
                                           .shape = turns_b ? Shape{columns, inner} : Shape{inner, columns},
                                           .most_magnitude = kMostMagnitude});
  std::vector<OnnxAttribute> attributes;
  if (turns_a) attributes.emplace_back("transA", 1);
  if (turns_b || random.chance(0.2)) attributes.emplace_back("transB", turns_b ? 1 : 0);
  if (random.chance(0.3)) attributes.emplace_back("alpha", random.of({0.5F, 2.0F, -1.0F, 0.0F}));
  if (random.chance(0.3)) attributes.emplace_back("beta", random.of({0.5F, 2.0F, -1.0F, 0.0F}));
  GeneratedValue c = GraphWriter::absent();
  if (random.chance(0.7) || !writer.is_at_least(11)) {
    Shape shape = random.of({Shape{rows, columns}, Shape{columns}, Shape{1, columns}, Shape{rows, 1},
                             Shape{1}, Shape{}, Shape{1, 1}});
    c = writer.operand({.dtypes = {writer.real}, .shape = shape, .most_magnitude = kMostMagnitude});
  }
  Numbers numbers = product(sum_of(product(a.numbers, b.numbers), static_cast<double>(inner)), {2, 0.5});
  if (!c.name.empty()) numbers = sum(numbers, product(c.numbers, {2, 0.5}));
  numbers.is_positive = false;
  writer.node(op, {a, b, c}, attributes, {a.dtype, {rows, columns}, numbers});
}

void write_matmul(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const GeneratedValue a =
      writer.operand({.dtypes = {writer.real}, .least_rank = 1, .most_magnitude = kMostMagnitude});
  const int64_t inner = a.shape.back();
  const bool is_vector = random.chance(0.2);
  Shape of_b = is_vector ? Shape{inner} : Shape{inner, random.between(1, 4)};
  Shape batch_a = a.rank() > 2 ? Shape(a.shape.begin(), a.shape.end() - 2) : Shape{};
  Shape batch_b;
  if (!is_vector && random.chance(0.4)) {
    batch_b = batch_a;
    if (batch_b.empty() || random.chance(0.2)) batch_b.insert(batch_b.begin(), batch_a.size() > 2 ? 1 : 2);
    for (int64_t& size : batch_b) {
      if (random.chance(0.3)) size = 1;
    }
    if (batch_b.size() > 3) batch_b.erase(batch_b.begin());
  }
  Shape result = broadcast_shape(batch_a, batch_b);
  if (a.rank() > 1) result.push_back(a.shape[a.shape.size() - 2]);
  if (!is_vector) result.push_back(of_b[1]);
  of_b.insert(of_b.begin(), batch_b.begin(), batch_b.end());
  const GeneratedValue b =
      writer.operand({.dtypes = {writer.real}, .shape = of_b, .most_magnitude = kMostMagnitude});
  Numbers numbers = sum_of(product(a.numbers, b.numbers), static_cast<double>(inner));
  numbers.is_positive = false;
  writer.node(op, {a, b}, {}, {a.dtype, result, numbers});
}

struct Equation {
  const char* text;
  std::vector<const char*> operands;
  const char* result;
};

/// Letters have one size each.
void write_einsum(GraphWriter& writer, const std::string& op) {
  static const std::vector<Equation> equations = {{"ij,jk->ik", {"ij", "jk"}, "ik"},
                                                  {"ij,jk", {"ij", "jk"}, "ik"},
                                                  {"bij,bjk->bik", {"bij", "bjk"}, "bik"},
                                                  {"ij->ji", {"ij"}, "ji"},
                                                  {"ij->", {"ij"}, ""},
                                                  {"ii->i", {"ii"}, "i"},
                                                  {"i,j->ij", {"i", "j"}, "ij"},
                                                  {"bhid,bhjd->bhij", {"bhid", "bhjd"}, "bhij"},
                                                  {"ij,ij->i", {"ij", "ij"}, "i"},
                                                  {"ij,jk,kl->il", {"ij", "jk", "kl"}, "il"},
                                                  {"ij -> j", {"ij"}, "j"},
                                                  {"ba", {"ba"}, "ab"},
                                                  {"...ij,...jk->...ik", {"bij", "bjk"}, "bik"},
                                                  {"bshd,bthd->bhst", {"bshd", "bthd"}, "bhst"},
                                                  {"bhst,bthd->bshd", {"bhst", "bthd"}, "bshd"},
                                                  {"bhwc,hkc->bhwk", {"bhwc", "hkc"}, "bhwk"},
                                                  {"hkc,bhwc->kbwh", {"hkc", "bhwc"}, "kbwh"},
                                                  {"abc,cde->abde", {"abc", "cde"}, "abde"},
                                                  {"abcd,cde->abe", {"abcd", "cde"}, "abe"},
                                                  {"bij,bik->bjk", {"bij", "bik"}, "bjk"},
                                                  {"i...->...", {"ij"}, "j"}};
  const Equation& equation = writer.random.of(equations);
  std::vector<int64_t> size(256);
  for (int64_t& s : size) s = writer.random.between(1, 4);
  const auto shape_of = [&](const char* letters) {
    Shape shape;
    for (; *letters != 0; ++letters) shape.push_back(size[static_cast<size_t>(*letters)]);
    return shape;
  };
  std::vector<GeneratedValue> inputs;
  Numbers numbers{1, 1};
  for (const char* operand : equation.operands) {
    inputs.push_back(
        writer.operand({.dtypes = {writer.real}, .shape = shape_of(operand), .most_magnitude = 256}));
    numbers = product(numbers, inputs.back().numbers);
  }
  numbers = sum_of(numbers, 64);
  numbers.is_positive = false;
  writer.node(op, inputs, {{"equation", equation.text}}, {writer.real, shape_of(equation.result), numbers});
}

}  // namespace

std::vector<OperatorGenerator> layer_generators() {
  return {{"Conv", 7, write_conv},     {"Conv", 7, write_conv},     {"ConvTranspose", 7, write_transposed},
          {"Gemm", 7, write_gemm},     {"MatMul", 7, write_matmul}, {"MatMul", 7, write_matmul},
          {"Einsum", 12, write_einsum}};
}

}  // namespace detent
