#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ops/allclose.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "detent/autograd/initialize.h"
#include "detent/autograd/torch_tensor.h"
#include "detent/core/error_of_for_test.h"
#include "detent/core/parallel.h"
#include "detent/formats/kernel_environment.h"
#include "detent/inference/float_nodes.h"

// Einstein sums by the layer float32 against libtorch's.

namespace detent {
namespace {

Tensor portable_einsum(const std::string& equation, const std::vector<at::Tensor>& operands) {
  Node node{.name = "mix", .op = "einsum"};
  node.attributes["equation"] = equation;
  std::vector<FloatFlow> flows;
  for (const at::Tensor& operand : operands) {
    node.inputs.push_back(NodeInput::of(fmt::format("x{}", flows.size())));
    flows.push_back({from_torch(operand)});
  }
  return FloatNodes().results(node, flows).at(0).tensor;
}

/// Up to 1e-5 of the largest number among the results.
void expect_einsum_close(const std::string& equation, const std::vector<at::Tensor>& operands) {
  const at::Tensor expected = at::einsum(equation, operands);
  const at::Tensor result = to_torch(portable_einsum(equation, operands));
  ASSERT_EQ(result.sizes(), expected.sizes());
  const double largest = expected.numel() == 0 ? 0 : expected.abs().max().item<double>();
  EXPECT_TRUE(at::allclose(result, expected, 1e-5, 1e-5 * std::max(1.0, largest)));
}

struct Sum {
  std::string equation;
  std::vector<at::Tensor> operands;
};

class RandomSum {
 public:
  explicit RandomSum(unsigned seed) : engine_(seed) {
    for (int64_t& size : sizes_) size = draw(0, 15) == 0 ? 0 : draw(1, 5);
    for (int64_t& size : ellipsis_) size = draw(1, 3);
    has_ellipsis_ = draw(0, 2) == 0;
  }

  Sum drawn() {
    Sum sum;
    const int64_t count = draw(1, 4);
    for (int64_t i = 0; i < count; ++i) {
      if (i > 0) sum.equation += draw(0, 3) == 0 ? " , " : ",";
      sum.operands.push_back(operand(sum.equation));
    }
    if (draw(0, 3) > 0) sum.equation += "->" + result(sum.equation);
    return sum;
  }

 private:
  static constexpr std::string_view kLetters = "abcXyZ";

  int64_t draw(int64_t low, int64_t high) { return std::uniform_int_distribution(low, high)(engine_); }

  /// Dimensions of size 1 repeat, but not within a diagonal, which libtorch refuses.
  at::Tensor operand(std::string& equation) {
    Shape shape;
    const int64_t letters = draw(0, 4);
    const int64_t dots = has_ellipsis_ && draw(0, 3) > 0 ? draw(0, letters) : -1;
    const auto repeated = static_cast<size_t>(draw(0, 11));
    for (int64_t i = 0; i <= letters; ++i) {
      if (i == dots) {
        equation += "...";
        for (int64_t d = draw(0, 2); d > 0; --d)
          shape.push_back(draw(0, 3) == 0 ? 1 : ellipsis_[static_cast<size_t>(d - 1)]);
      }
      if (i == letters) break;
      const auto letter = static_cast<size_t>(draw(0, std::ssize(kLetters) - 1));
      equation += kLetters[letter];
      shape.push_back(letter == repeated ? 1 : sizes_[letter]);
    }
    return at::randn(shape);
  }

  /// Some of the letters, in any order.
  std::string result(const std::string& inputs) {
    std::vector<std::string> terms;
    for (const char letter : kLetters) {
      if (inputs.find(letter) != std::string::npos && draw(0, 1) == 1) terms.emplace_back(1, letter);
    }
    if (inputs.find('.') != std::string::npos) terms.emplace_back("...");
    std::ranges::shuffle(terms, engine_);
    std::string text;
    for (const std::string& term : terms) text += term;
    return text;
  }

  std::mt19937 engine_;
  int64_t sizes_[kLetters.size()];
  int64_t ellipsis_[2];
  bool has_ellipsis_;
};

template <class Test>
void for_random_sums(unsigned count, Test test) {
  for (unsigned seed = 0; seed < count; ++seed) {
    seed_everything(seed);
    const Sum sum = RandomSum(seed).drawn();
    std::string text = fmt::format("{}: {}", seed, sum.equation);
    for (const at::Tensor& operand : sum.operands) text += " " + shape_text(operand.sizes().vec());
    SCOPED_TRACE(text);
    test(sum);
  }
}

TEST(Float32Einsum, GivesWhatLibtorchGives) {
  for_random_sums(600, [](const Sum& sum) { expect_einsum_close(sum.equation, sum.operands); });
}

TEST(Float32Einsum, GivesWhatLibtorchGivesOfWhatNetworksAskFor) {
  seed_everything(1);
  expect_einsum_close("bhid,bhjd->bhij", {at::randn({2, 3, 40, 16}), at::randn({2, 3, 50, 16})});
  expect_einsum_close("bhij,bhjd->bihd", {at::randn({2, 3, 40, 50}), at::randn({2, 3, 50, 16})});
  expect_einsum_close("nctv,vw->nctw", {at::randn({2, 8, 20, 25}), at::randn({25, 25})});
  expect_einsum_close("...qk,...kv,...v->...q",
                      {at::randn({3, 9, 20}), at::randn({4, 1, 20, 17}), at::randn({17})});
  expect_einsum_close("bi,bi->b", {at::randn({70, 33}), at::randn({70, 33})});
}

TEST(Float32Einsum, GivesTheSameBitsWithEveryTargetAndNumberOfThreads) {
  const int threads = thread_count();
  for_random_sums(100, [](const Sum& sum) {
    set_thread_count(1);
    const Tensor expected = portable_einsum(sum.equation, sum.operands);
    set_thread_count(3);
    for (const std::string& target : simd_targets()) {
      set_simd_target(target, "test");
      EXPECT_TRUE(portable_einsum(sum.equation, sum.operands).equals(expected)) << target;
    }
    set_simd_target(simd_targets().front(), "test");
  });
  set_thread_count(threads);
}

TEST(Float32Einsum, NamesTheNodeWhoseInputsDoNotFit) {
  const auto error = [](const std::string& equation, const std::vector<at::Tensor>& operands) {
    return error_of([&] { portable_einsum(equation, operands); });
  };
  const at::Tensor x = at::randn({2, 3});
  EXPECT_EQ(error("abc->a", {x}), "node \"mix\" (einsum): got a tensor of shape [2, 3] for \"abc\"");
  EXPECT_THAT(error("ab,b->d", {x, x[0]}), testing::HasSubstr("got 'd' in the result \"d\""));
  EXPECT_THAT(error("ab->aa", {x}), testing::HasSubstr("letters of the inputs, once each"));
  EXPECT_THAT(error("a...->a", {x}), testing::HasSubstr("the result \"a\" has no ellipsis"));
  EXPECT_THAT(error("ab,a", {x}), testing::HasSubstr("got \"ab,a\" for 1 inputs"));
  EXPECT_THAT(error("ab,ba", {x, x}), testing::HasSubstr("do not broadcast"));
}

}  // namespace
}  // namespace detent
