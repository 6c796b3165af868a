#include "detent/inference/reference_step.h"

#include <cstdlib>
#include <limits>
#include <variant>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/error_of_for_test.h"
#include "detent/graph/builder.h"

namespace detent {
namespace {

using testing::HasSubstr;

struct Operand16 {
  int width;
  bool is_signed;
  int zero_point_at;  // 0: the lowest code, 1: the middle one, 2: the highest

  int32_t low() const { return is_signed ? -(1 << (width - 1)) : 0; }
  int32_t high() const { return low() + (1 << width) - 1; }
  int32_t zero_point() const {
    const int32_t middle = low() / 2 + high() / 2;
    return zero_point_at == 0 ? low() : zero_point_at == 1 ? middle : high();
  }
  /// The code that is farthest from the zero point.
  int32_t farthest() const { return high() - zero_point() >= zero_point() - low() ? high() : low(); }
  int64_t steps() const { return std::abs(int64_t{farthest()} - zero_point()); }
  QuantizerRef quantizer() const {
    return QuantizerRef(parse_quant_spec_text(
        fmt::format("affine:width={},signed={},scale=1,zero_point={}", width, is_signed, zero_point())));
  }
};

std::vector<Operand16> all_operands() {
  std::vector<Operand16> all;
  for (const int width : {2, 3, 4, 7, 8, 9, 12, 15, 16}) {
    for (const bool is_signed : {false, true}) {
      for (const int at : {0, 1, 2}) all.push_back({width, is_signed, at});
    }
  }
  return all;
}

Node product_of(const Operand16& a, const Operand16& b) {
  GraphBuilder builder("g");
  const NodeInput left = builder.input("a", {1, 3});
  const Graph graph = builder.finish(builder.call("matmul", {left, builder.parameter("b", {3, 1})}));
  Node node = graph.node("matmul");
  node.quantization["data_in_0"] = a.quantizer();
  node.quantization["data_in_1"] = b.quantizer();
  return node;
}

Tensor filled(const Shape& shape, int32_t code) {
  Tensor tensor(DType::kInt32, shape);
  std::ranges::fill(tensor.values<int32_t>(), code);
  return tensor;
}

/// The longest sums that are computed are right where all products are as large as they can be, and longer
/// ones are refused.
TEST(CodeProduct, SumsOfAnyWidthsAreRightOrRefused) {
  constexpr int64_t kLargest = std::numeric_limits<int32_t>::max();
  constexpr int64_t kMostComputed = 150'000;
  int computed = 0;
  for (const Operand16& a : all_operands()) {
    for (const Operand16& b : all_operands()) {
      const Node node = product_of(a, b);
      const std::optional<NodeForm> found = node_form(node, Requantization::kFloat);
      const int64_t product = a.steps() * b.steps();
      ASSERT_EQ(found.has_value(), product * ProductForm::kDepth <= kLargest) << a.width << " x " << b.width;
      if (!found) continue;
      const auto& form = std::get<ProductForm>(*found);
      const int64_t depth = kLargest / product;
      ASSERT_TRUE(form.fits_depth(depth)) << a.width << " x " << b.width;
      ASSERT_FALSE(form.fits_depth(depth + 1)) << a.width << " x " << b.width;
      if (depth > kMostComputed) continue;
      const Tensor left = filled({1, depth + 1}, a.farthest());
      const Tensor right = filled({depth + 1, 1}, b.farthest());
      ASSERT_THAT(error_of([&] { code_product(form, node, left, right); }),
                  HasSubstr("node \"matmul\" (matmul): sums of"));
      const Tensor sums = code_product(form, node, filled({1, depth}, a.farthest()), right.rows(0, depth));
      const int64_t expected =
          depth * (a.farthest() - a.zero_point()) * int64_t{b.farthest() - b.zero_point()};
      ASSERT_EQ(sums.values<int32_t>()[0], expected) << a.width << " x " << b.width;
      ++computed;
    }
  }
  EXPECT_GT(computed, 50);
}

}  // namespace
}  // namespace detent
