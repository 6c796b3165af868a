#include "detent/operators/schema.h"

namespace detent {
namespace {

/// A window that begins in the padding may step over all elements where it is dilated.
void expect_elements_in_windows(int64_t size, int64_t stride, int64_t padding, int64_t dilation) {
  for (int64_t start = -padding; start < 0; start += stride) {
    const int64_t first = start + (-start + dilation - 1) / dilation * dilation;
    if (first >= size) fail("the window at {} covers nothing but padding of {} elements", start, size);
  }
}

Operand infer_pool(const Node& node, std::span<const Operand> inputs, size_t dims, bool dilated) {
  const Shape& input = tensor_shape(inputs, 0);
  expect_rank(input, dims + 2);
  const auto kernel = integers_attribute(node, "kernel_size", dims);
  const auto stride = pool_stride(node, dims);
  const auto padding = integers_attribute(node, "padding", dims);
  const auto dilation = dilated ? integers_attribute(node, "dilation", dims) : std::vector<int64_t>(dims, 1);
  Shape shape = {input[0], input[1]};
  for (size_t i = 0; i < dims; ++i) {
    if (padding[i] > kernel[i] / 2)
      fail("padding {} is more than half of the window {}", padding[i], kernel[i]);
    const bool ceil_mode = boolean_attribute(node, "ceil_mode");
    shape.push_back(window_count(input[i + 2], kernel[i], stride[i], padding[i], dilation[i], ceil_mode));
    expect_size("size of the input", input[i + 2], 1);
    expect_elements_in_windows(input[i + 2], stride[i], padding[i], dilation[i]);
  }
  return {std::move(shape), Value()};
}

Operand infer_adaptive(const Node& node, std::span<const Operand> inputs, size_t dims) {
  const Shape& input = tensor_shape(inputs, 0);
  expect_rank(input, dims + 2);
  Shape shape = {input[0], input[1]};
  for (const int64_t size : integers_attribute(node, "output_size", dims)) {
    if (size < 1) fail("attribute \"output_size\": got {}, expected at least 1", size);
    expect_size("attribute \"output_size\"", size, 1);
    expect_size("size of the input", input[shape.size()], 1);
    shape.push_back(size);
  }
  return {std::move(shape), Value()};
}

std::vector<AttributeSchema> window_attributes() {
  return {{"kernel_size", AttributeKind::kIntegers, Value(), "size of the window"},
          {"stride", AttributeKind::kIntegers, Value(), "step of the window; NA: its size", true},
          {"padding", AttributeKind::kIntegers, 0, "border on both sides, at most half the window"},
          {"ceil_mode", AttributeKind::kBoolean, false, "count a last window that only begins inside"}};
}

OperatorSchema max_pool(size_t dims) {
  OperatorSchema schema = {
      .name = fmt::format("max_pool{}d", dims),
      .help = "largest element of each window",
      .mase_type = MaseType::kModuleRelatedFunc,
      .attributes = window_attributes(),
      .infer = [dims](const Node& node,
                      std::span<const Operand> inputs) { return infer_pool(node, inputs, dims, true); },
      .trait = Pooling{Pooling::Of::kLargest}};
  schema.attributes.push_back({"dilation", AttributeKind::kIntegers, 1, "distance of the window's elements"});
  return schema;
}

OperatorSchema avg_pool(size_t dims) {
  OperatorSchema schema = {
      .name = fmt::format("avg_pool{}d", dims),
      .help = "mean of each window",
      .mase_type = MaseType::kModuleRelatedFunc,
      .attributes = window_attributes(),
      .infer = [dims](const Node& node,
                      std::span<const Operand> inputs) { return infer_pool(node, inputs, dims, false); },
      .trait = Pooling{Pooling::Of::kMean},
      .quantizable = true};
  schema.attributes.push_back(
      {"count_include_pad", AttributeKind::kBoolean, true, "count the border's zeros"});
  return schema;
}

/// Whether a window of a pooling with a border may lie in the border alone.
enum class EmptyWindows { kRefused, kAllowed };

/// [N, C, ...] padded by `padding`: before each dimension, then after each.
Shape infer_bordered_pool(const Node& node, std::span<const Operand> inputs, EmptyWindows empty) {
  const Shape& input = tensor_shape(inputs, 0);
  if (input.size() < 3 || input.size() > 5)
    fail("got an input of shape {}, expected [N, C, ...] of 3 to 5 dimensions", shape_text(input));
  if (inputs[0].dtype != DType::kFloat32) fail("got {}, expected float32", dtype_name(inputs[0].dtype));
  const size_t dims = input.size() - 2;
  const auto kernel = integers_attribute(node, "kernel_size", dims);
  const auto stride = pool_stride(node, dims);
  const auto padding = integers_attribute(node, "padding", 2 * dims);
  const auto dilation = integers_attribute(node, "dilation", dims);
  const bool ceil_mode = boolean_attribute(node, "ceil_mode");
  Shape shape = {input[0], input[1]};
  for (size_t i = 0; i < dims; ++i) {
    const int64_t before = padding[i];
    const int64_t after = padding[i + dims];
    expect_size("size of the input", input[i + 2], 1);
    expect_size("attribute \"padding\"", before, 0);
    expect_size("attribute \"padding\"", after, 0);
    const int64_t padded = input[i + 2] + before + after;
    int64_t count = window_count(padded, kernel[i], stride[i], 0, dilation[i], ceil_mode);
    const auto begins_after = [&] { return (count - 1) * stride[i] >= before + input[i + 2]; };
    if (ceil_mode && begins_after()) --count;
    shape.push_back(count);
    if (empty == EmptyWindows::kAllowed) continue;
    if (before >= dilation[i] * (kernel[i] - 1) + 1 || begins_after())
      fail("padding {} and {} leaves a window without elements", before, after);
    expect_elements_in_windows(input[i + 2], stride[i], before, dilation[i]);
  }
  return shape;
}

std::vector<AttributeSchema> bordered_window_attributes() {
  std::vector<AttributeSchema> attributes = window_attributes();
  attributes[2].help = "border before each dimension, then after each";
  attributes.push_back({"dilation", AttributeKind::kIntegers, 1, "distance of the window's elements"});
  return attributes;
}

OperatorSchema max_pool_with_places() {
  OperatorSchema schema = {
      .name = "max_pool_with_places",
      .help = "largest element of each window of 1 to 3 dimensions, and its place among all elements",
      .attributes = bordered_window_attributes(),
      .infer_results = [](const Node& node, std::span<const Operand> inputs) -> std::vector<Operand> {
        const Shape shape = infer_bordered_pool(node, inputs, EmptyWindows::kRefused);
        return {{shape, Value()}, {shape, Value(), DType::kInt64}};
      },
      .result_count = [](const Node&) { return size_t{2}; },
      .dtypes = DTypeRule::kOwn};
  schema.attributes.push_back({"column_major", AttributeKind::kBoolean, false,
                               "count places with the first spatial dimension fastest"});
  return schema;
}

OperatorSchema avg_pool_with_border() {
  OperatorSchema schema = {.name = "avg_pool_with_border",
                           .help = "mean of each window of 1 to 3 dimensions, which may be dilated",
                           .attributes = bordered_window_attributes(),
                           .infer = [](const Node& node, std::span<const Operand> inputs) -> Operand {
                             const bool counts = boolean_attribute(node, "count_include_pad");
                             const auto empty = counts ? EmptyWindows::kAllowed : EmptyWindows::kRefused;
                             return {infer_bordered_pool(node, inputs, empty), Value()};
                           },
                           .trait = Pooling{Pooling::Of::kMean, false, true},
                           .quantizable = true};
  schema.attributes.push_back(
      {"count_include_pad", AttributeKind::kBoolean, true, "count the border's zeros"});
  return schema;
}

OperatorSchema lp_pool() {
  OperatorSchema schema = {.name = "lp_pool",
                           .help = "(sum |x|^p)^(1/p) over each window of 1 to 3 dimensions",
                           .attributes = bordered_window_attributes(),
                           .infer = [](const Node& node, std::span<const Operand> inputs) -> Operand {
                             const int64_t p = integer_attribute(node, "p");
                             if (p < 1) fail("attribute \"p\": got {}, expected at least 1", p);
                             return {infer_bordered_pool(node, inputs, EmptyWindows::kAllowed), Value()};
                           },
                           .quantizable = true};
  schema.attributes.push_back({"p", AttributeKind::kInteger, 2, "exponent of the norm"});
  return schema;
}

OperatorSchema adaptive_pool(Pooling::Of of, size_t dims, const char* help) {
  const bool means = of == Pooling::Of::kMean;
  return {.name = fmt::format("adaptive_{}_pool{}d", means ? "avg" : "max", dims),
          .help = help,
          .mase_type = MaseType::kModuleRelatedFunc,
          .attributes = {{"output_size", AttributeKind::kIntegers, Value(), "size of the result"}},
          .infer = [dims](const Node& node,
                          std::span<const Operand> inputs) { return infer_adaptive(node, inputs, dims); },
          .trait = Pooling{of, true},
          .quantizable = means};
}

}  // namespace

std::vector<int64_t> pool_stride(const Node& node, size_t dims) {
  const Value* stride = node.attributes.find("stride");
  return integers_attribute(node, stride == nullptr || stride->is_na() ? "kernel_size" : "stride", dims);
}

std::vector<OperatorSchema> pooling_operators() {
  std::vector<OperatorSchema> list = {max_pool_with_places(), avg_pool_with_border(), lp_pool()};
  for (const size_t dims : {size_t{1}, size_t{2}, size_t{3}}) {
    list.push_back(max_pool(dims));
    list.push_back(avg_pool(dims));
    list.push_back(
        adaptive_pool(Pooling::Of::kLargest, dims, "largest element of windows that give the wanted size"));
    list.push_back(adaptive_pool(Pooling::Of::kMean, dims, "mean of windows that give the wanted size"));
  }
  return list;
}

}  // namespace detent
