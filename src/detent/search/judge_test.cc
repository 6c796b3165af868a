#include "detent/search/judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "detent/core/error_of_for_test.h"
#include "detent/formats/quant_spec.h"
#include "detent/graph/builder.h"
#include "detent/inference/integer_executor.h"

namespace detent {
namespace {

/// Rows of two numbers of which one at least is large.
class UnevenRows final : public CalibrationSet {
 public:
  int64_t size() const override { return 4; }
  std::vector<Tensor> inputs(int64_t begin, int64_t end) const override {
    const std::vector<float> values = {0.4F, 3, 3, 1, 2, 2.5F, 2.5F, 0.5F};
    return {Tensor::from({size(), 2}, values).rows(begin, end)};
  }
  uint64_t fingerprint() const override { return 1; }
};

/// The parts of a sum: NaN where all round to 0.
Graph parts_of_sum() {
  GraphBuilder b("parts");
  const NodeInput x = b.input("x", {2});
  const NodeInput sum =
      b.call("sum", {x, NodeInput::of_constant(Value(std::vector<int64_t>{1}))}, {{"keepdim", true}});
  return b.finish(b.call("div", {x, sum}));
}

Graph with_steps_of(const Graph& graph, const char* format) {
  Graph rounded = graph;
  rounded.node("x").quantization["data_out_0"] = QuantizerRef(Quantizer(parse_quant_spec_text(format)));
  return rounded;
}

TEST(Judge, NetworksThatGiveNaNInTheRangeOfTheSamplesAreNoCandidates) {
  const Graph graph = parts_of_sum();
  const IntegerExecutor executor;
  const Judge judge(graph, executor, {std::make_shared<UnevenRows>(), {}}, 4);
  EXPECT_TRUE(judge.reference().is_finite());
  EXPECT_EQ(judge.reference().samples, 4);
  const auto never = [] { return false; };
  const Graph fine = with_steps_of(graph, "affine:scale=0.1,zero_point=0");
  const Graph coarse = with_steps_of(graph, "affine:scale=2,zero_point=0");
  EXPECT_TRUE(judge.judge(fine, 4, never)->is_finite());
  EXPECT_FALSE(judge.judge(coarse, 4, never)->is_finite());
  EXPECT_EQ(judge.judge(fine, 2, never)->samples, 2);

  EXPECT_FALSE(judge.judge_family(coarse, {}, 4, never, single_process())->front().is_finite());
  EXPECT_TRUE(judge.judge_family(fine, {}, 4, never, single_process())->front().is_finite());
}

/// As of masks that a comparison chooses.
TEST(Judge, NetworksWhoseOutputsHaveOtherSizesAreNoCandidates) {
  GraphBuilder b("places");
  const NodeInput places = b.call("nonzero", {b.input("x", {2})});
  const Graph graph = b.finish(b.call("cast", {places}, {{"dtype", "float32"}}));
  const IntegerExecutor executor;
  const Judge judge(graph, executor, {std::make_shared<UnevenRows>(), {}}, 4);
  const auto never = [] { return false; };
  EXPECT_TRUE(judge.judge(graph, 4, never)->is_finite());
  EXPECT_FALSE(judge.judge(with_steps_of(graph, "affine:scale=2,zero_point=0"), 4, never)->is_finite());
}

TEST(Judge, OutputsThatAreEmptyAreRefused) {
  GraphBuilder b("empty");
  const NodeInput none = NodeInput::of_constant(Value(std::vector<int64_t>{2}));
  const NodeInput after = NodeInput::of_constant(Value(std::vector<int64_t>{9}));
  const NodeInput dim = NodeInput::of_constant(Value(std::vector<int64_t>{1}));
  const Graph graph = b.finish(b.call("dynamic_slice", {b.input("x", {2}), none, after, dim}));
  const IntegerExecutor executor;
  EXPECT_THAT(error_of([&] {
                Judge(graph, executor, {std::make_shared<UnevenRows>(), {}}, 4);
              }),
              testing::HasSubstr("its output is empty: networks cannot be compared"));
}

/// Inputs for which float gives NaN too say nothing.
TEST(Judge, InputsThatFloatDoesNotTakeSayNothing) {
  GraphBuilder b("logarithm");
  const Graph graph =
      b.finish(b.call("log", {b.call("sub", {b.input("x", {2}), NodeInput::of_constant(Value(0.4))})}));
  const IntegerExecutor executor;
  class LargeRows final : public CalibrationSet {
   public:
    int64_t size() const override { return 2; }
    std::vector<Tensor> inputs(int64_t begin, int64_t end) const override {
      return {Tensor::from({2, 2}, std::vector<float>{1, 3, 2, 4}).rows(begin, end)};
    }
    uint64_t fingerprint() const override { return 1; }
  };
  const Judge judge(graph, executor, {std::make_shared<LargeRows>(), {}}, 2);
  EXPECT_TRUE(judge.judge(graph, 2, [] { return false; })->is_finite());
}

}  // namespace
}  // namespace detent
