#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "detent/core/error_of_for_test.h"
#include "detent/inference/integer_executor.h"
#include "detent/onnx/import_onnx.h"

#include "detent/onnx/model_for_test.h"
#include "detent/onnx/results_for_test.h"

// Attention and what language models have beside it, against loops that follow the standard's text.

namespace detent {
namespace {

using testing::HasSubstr;

using Floats = std::vector<float>;
using Ints = std::vector<int64_t>;

constexpr double kUnseen = -std::numeric_limits<double>::infinity();  // bias of keys that are not attended

std::vector<Tensor> run(const OnnxModelForTest& model, const std::vector<Tensor>& inputs) {
  const Graph graph = import_onnx(model.write(), {.shapes = {}, .frees_batch = false});
  return IntegerExecutor().compile(graph)->run(inputs);
}

double at(const Tensor& tensor, int64_t a, int64_t b, int64_t c, int64_t d) {
  const int64_t place = ((a * tensor.dim(1) + b) * tensor.dim(2) + c) * tensor.dim(3) + d;
  return static_cast<double>(tensor.values<float>()[static_cast<size_t>(place)]);
}

/// softmax(q K^T / sqrt(size) + bias) V, heads of queries in groups on heads of keys; zeros where no key has
/// a bias above -infinity. `bias` is a function of sample, query and key.
std::vector<double> attended(const Tensor& q, const Tensor& k, const Tensor& v, const auto& bias) {
  std::vector<double> result;
  for (int64_t n = 0; n < q.dim(0); ++n) {
    for (int64_t h = 0; h < q.dim(1); ++h) {
      const int64_t of_keys = h / (q.dim(1) / k.dim(1));
      for (int64_t i = 0; i < q.dim(2); ++i) {
        std::vector<double> sums(static_cast<size_t>(v.dim(3)), 0);
        double all = 0;
        for (int64_t j = 0; j < k.dim(2); ++j) {
          double score = 0;
          for (int64_t d = 0; d < q.dim(3); ++d) score += at(q, n, h, i, d) * at(k, n, of_keys, j, d);
          const double share = std::exp(score / std::sqrt(static_cast<double>(q.dim(3))) + bias(n, i, j));
          all += share;
          for (int64_t d = 0; d < v.dim(3); ++d)
            sums[static_cast<size_t>(d)] += share * at(v, n, of_keys, j, d);
        }
        for (const double sum : sums) result.push_back(all == 0 ? 0 : sum / all);
      }
    }
  }
  return result;
}

double no_bias(int64_t, int64_t, int64_t) { return 0; }

/// Queries [2, 4, 3, 6], keys [2, 2, 5, 6] and values [2, 2, 5, 7], all sizes but those of heads open where
/// the model says so.
class Attention : public testing::Test {
 protected:
  void declare(bool open, const std::vector<OnnxAttribute>& attributes,
               const std::vector<std::string>& more = {}) {
    model.input("q", open ? Ints{-1, 4, -2, 6} : Ints{2, 4, 3, 6});
    model.input("k", open ? Ints{-1, 2, -3, 6} : Ints{2, 2, 5, 6});
    model.input("v", open ? Ints{-1, 2, -3, 7} : Ints{2, 2, 5, 7});
    model.output("y");
    std::vector<std::string> inputs = {"q", "k", "v"};
    inputs.insert(inputs.end(), more.begin(), more.end());
    model.node("Attention", inputs, {"y"}, attributes);
  }

  OnnxModelForTest model{25};
  const Tensor q = varied_numbers({2, 4, 3, 6}, 1);
  const Tensor k = varied_numbers({2, 2, 5, 6}, 2);
  const Tensor v = varied_numbers({2, 2, 5, 7}, 3);
};

TEST_F(Attention, OfGroupsOfQueries) {
  declare(false, {});
  const Tensor y = run(model, {q, k, v}).at(0);
  EXPECT_EQ(y.shape(), (Shape{2, 4, 3, 7}));
  expect_near(y, attended(q, k, v, no_bias));
}

TEST_F(Attention, OfOpenSizesIsCausalWithinAWindow) {
  declare(true, {{"is_causal", 1}, {"left_window_size", 1}});
  expect_near(run(model, {q, k, v}).at(0), attended(q, k, v, [](int64_t, int64_t i, int64_t j) {
                return j <= i && j >= i - 1 ? 0 : kUnseen;
              }));
}

TEST_F(Attention, OfValidKeysLeavesRowsEmpty) {
  model.input("valid", {-1}, kOnnxInt64);
  declare(true, {{"is_causal", 1}, {"right_window_size", 3}}, {"", "", "", "valid"});
  const Ints valid = {2, 4};
  expect_near(run(model, {Tensor::from({2}, valid), q, k, v}).at(0),
              attended(q, k, v, [&](int64_t n, int64_t i, int64_t j) {
                const int64_t keys = valid[static_cast<size_t>(n)];
                return j < keys && j <= i + keys - 3 ? 0 : kUnseen;
              }));
}

TEST_F(Attention, AddsAMaskThatIsShorterThanTheKeys) {
  model.input("mask", {3, 4});
  declare(false, {}, {"mask"});
  const Tensor mask = varied_numbers({3, 4}, 4);
  expect_near(run(model, {mask, q, k, v}).at(0), attended(q, k, v, [&](int64_t, int64_t i, int64_t j) {
                return j < 4 ? static_cast<double>(mask.values<float>()[static_cast<size_t>(i * 4 + j)])
                             : kUnseen;
              }));
}

TEST_F(Attention, LeavesOutWhatAMaskDoesNotAllow) {
  model.input("mask", {-1, 1, -2, -3}, kOnnxBool);
  declare(true, {}, {"mask"});
  Tensor mask(DType::kBool, {2, 1, 3, 5});
  const auto allows = [](int64_t n, int64_t i, int64_t j) { return i != 1 && (n + i + j) % 2 == 0; };
  for (int64_t place = 0; place < mask.numel(); ++place)
    mask.values<bool>()[static_cast<size_t>(place)] = allows(place / 15, place / 5 % 3, place % 5);
  expect_near(run(model, {mask, q, k, v}).at(0), attended(q, k, v, [&](int64_t n, int64_t i, int64_t j) {
                return allows(n, i, j) ? 0 : kUnseen;
              }));
}

TEST_F(Attention, PutsKeysAfterThoseOfThePast) {
  model.input("past_k", {-1, 2, -4, 6});
  model.input("past_v", {-1, 2, -4, 7});
  declare(true, {{"is_causal", 1}}, {"", "past_k", "past_v"});
  model.graph().mutable_node(0)->add_output("keys");
  model.output("keys");
  const Tensor past_k = varied_numbers({2, 2, 2, 6}, 5);
  const Tensor past_v = varied_numbers({2, 2, 2, 7}, 6);
  const std::vector<Tensor> results = run(model, {past_k, past_v, q, k, v});
  const auto joined = [](const Tensor& a, const Tensor& b) {
    Tensor all(DType::kFloat32, {2, 2, a.dim(2) + b.dim(2), a.dim(3)});
    size_t place = 0;
    for (int64_t n = 0; n < 4; ++n) {
      for (const Tensor* part : {&a, &b}) {
        const auto values = part->values<float>().subspan(static_cast<size_t>(n * part->numel() / 4),
                                                          static_cast<size_t>(part->numel() / 4));
        std::ranges::copy(values, all.values<float>().begin() + static_cast<std::ptrdiff_t>(place));
        place += values.size();
      }
    }
    return all;
  };
  EXPECT_TRUE(results.at(1).equals(joined(past_k, k)));
  const auto bias = [](int64_t, int64_t i, int64_t j) { return j <= i + 2 ? 0 : kUnseen; };
  expect_near(results.at(0), attended(q, joined(past_k, k), joined(past_v, v), bias));
}

TEST(OnnxAttention, OfThreeDimensionsHasItsHeadsInTheLast) {
  OnnxModelForTest model(23);
  for (const char* name : {"q", "k", "v"}) model.input(name, {-1, -2, 8});
  model.output("y");
  model.node("Attention", {"q", "k", "v"}, {"y"}, {{"q_num_heads", 1}, {"kv_num_heads", 1}});
  const Tensor x = varied_numbers({2, 3, 8}, 1);
  const Tensor one_head = x.reshaped({2, 1, 3, 8});
  const Tensor y = run(model, {x, x, x}).at(0);
  EXPECT_EQ(y.shape(), (Shape{2, 3, 8}));
  expect_near(y, attended(one_head, one_head, one_head, no_bias));
}

TEST(OnnxAttention, NeedsNumbersOfHeads) {
  OnnxModelForTest model(23);
  model.input("x", {2, 3, 8});
  model.output("y");
  model.node("Attention", {"x", "x", "x"}, {"y"}, {{"q_num_heads", 2}});
  EXPECT_THAT(error_of([&] { import_onnx(model.write()); }),
              HasSubstr("2 heads of queries and 0 of keys, expected a multiple, of at most 65536"));
}

TEST(OnnxAttention, RotaryEmbeddingTurnsPartsOfHeads) {
  for (const bool neighbours : {false, true}) {
    OnnxModelForTest model(23);
    model.input("x", {-1, 2, -2, 6});
    model.input("places", {-1, -2}, kOnnxInt64);
    const Floats angles = {0, 0.5F, 1, 2, 3, 4};
    Floats cosines(6);
    Floats sines(6);
    std::ranges::transform(angles, cosines.begin(), [](float angle) { return std::cos(angle); });
    std::ranges::transform(angles, sines.begin(), [](float angle) { return std::sin(angle); });
    model.constant("cosines", {3, 2}, cosines);
    model.constant("sines", {3, 2}, sines);
    model.output("y");
    model.node("RotaryEmbedding", {"x", "cosines", "sines", "places"}, {"y"},
               {{"rotary_embedding_dim", 4}, {"interleaved", neighbours ? 1 : 0}});
    const Tensor x = varied_numbers({1, 2, 2, 6}, 1);
    const Ints places = {2, 1};
    std::vector<double> expected;
    for (int64_t h = 0; h < 2; ++h) {
      for (int64_t s = 0; s < 2; ++s) {
        for (int64_t d = 0; d < 6; ++d) {
          const int64_t pair = neighbours ? d / 2 : d % 2;
          const bool is_second = neighbours ? d % 2 == 1 : d >= 2;
          const int64_t other = d + int64_t{is_second ? -1 : 1} * (neighbours ? 1 : 2);
          const auto angle = static_cast<size_t>(2 * places[static_cast<size_t>(s)] + pair);
          expected.push_back(d >= 4 ? at(x, 0, h, s, d)
                                    : at(x, 0, h, s, d) * std::cos(static_cast<double>(angles[angle])) +
                                          (is_second ? 1 : -1) * at(x, 0, h, s, other) *
                                              std::sin(static_cast<double>(angles[angle])));
        }
      }
    }
    expect_near(run(model, {x, Tensor::from({1, 2}, places)}).at(0), expected);
  }
}

TEST(OnnxAttention, TensorScatterWritesWhereEachSampleIs) {
  OnnxModelForTest model(24);
  model.input("cache", {2, 3, 1});
  model.input("update", {2, 2, 1});
  model.input("places", {2}, kOnnxInt64);
  model.output("y");
  model.node("TensorScatter", {"cache", "update", "places"}, {"y"}, {{"mode", "circular"}});
  const Tensor cache(DType::kFloat32, {2, 3, 1});
  const Tensor update = Tensor::from({2, 2, 1}, Floats{1, 2, 3, 4});
  const Tensor y = run(model, {cache, update, Tensor::from({2}, Ints{0, 2})}).at(0);
  EXPECT_TRUE(y.equals(Tensor::from({2, 3, 1}, Floats{1, 2, 0, 4, 0, 3})));
}

TEST(OnnxAttention, SwishScalesWhatItsSigmoidGets) {
  OnnxModelForTest model(24);
  model.input("x", {2});
  model.output("y");
  model.output("z");
  model.node("Swish", {"x"}, {"y"}, {{"alpha", 2.0F}});
  model.node("Swish", {"x"}, {"z"});
  const std::vector<Tensor> results = run(model, {Tensor::from({2}, Floats{1, -3})});
  expect_near(results.at(0), {1 / (1 + std::exp(-2.0)), -3 / (1 + std::exp(6.0))});
  expect_near(results.at(1), {1 / (1 + std::exp(-1.0)), -3 / (1 + std::exp(3.0))});
}

/// Two samples of three classes in two places; the target 7 is ignored.
Tensor class_loss(const char* op, const char* reduction, bool weighted, const Tensor& scores) {
  OnnxModelForTest model(22);
  model.input("x", {-1, 3, -2});
  model.input("target", {-1, -2}, kOnnxInt64);
  model.output("loss");
  model.constant("weight", {3}, Floats{1, 2, 4});
  std::vector<std::string> inputs = {"x", "target"};
  if (weighted) inputs.emplace_back("weight");
  model.node(op, inputs, {"loss"}, {{"reduction", reduction}, {"ignore_index", 7}});
  return run(model, {scores, Tensor::from({2, 2}, Ints{0, 7, 2, 1})}).at(0);
}

TEST(OnnxLosses, AreThoseOfTargetsThatAreNotIgnored) {
  const Tensor x = Tensor::from({2, 3, 2}, Floats{-1, -2, -3, -4, -5, -6, -7, -8, -9, -10, -11, -12});
  const char* const op = "NegativeLogLikelihoodLoss";
  expect_near(class_loss(op, "none", false, x), {1, 0, 11, 10});
  expect_near(class_loss(op, "sum", true, x), {1.0 + 4 * 11 + 2 * 10});
  expect_near(class_loss(op, "mean", true, x), {(1.0 + 4 * 11 + 2 * 10) / (1 + 4 + 2)});
  expect_near(class_loss(op, "mean", false, x), {22.0 / 3});
}

TEST(OnnxLosses, OfSoftmaxTakeTheLogarithmOfShares) {
  const Tensor x = Tensor::from({2, 3, 2}, Floats{1, 0, 1, 0, 1, 0, 2, 2, 2, 2, 2, 2});
  expect_near(class_loss("SoftmaxCrossEntropyLoss", "mean", true, x), {std::log(3.0)});
  EXPECT_THAT(error_of([&] { class_loss("SoftmaxCrossEntropyLoss", "most", true, x); }),
              HasSubstr("reduction is \"most\", expected none, mean or sum"));
}

}  // namespace
}  // namespace detent
