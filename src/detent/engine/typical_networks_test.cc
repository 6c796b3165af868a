#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "detent/engine/fast_executor.h"
#include "detent/graph/builder.h"
#include "detent/passes/pass_bench_for_test.h"

// Blocks of networks that people run, in float and in 8 bits: no step of the engine is one of the plain
// reference, or a node without a kernel.

namespace detent {
namespace {

Table dims(const std::vector<int64_t>& values) { return {{"dims", Value(values)}}; }

NodeInput list(const std::vector<int64_t>& values) { return NodeInput::of_constant(Value(values)); }

/// Layers with "same" padding, which name themselves.
class Blocks {
 public:
  explicit Blocks(const Shape& sample) : builder_("block"), x(builder_.input("x", sample)) {}

  NodeInput conv(const NodeInput& from, int64_t in, int64_t out, int64_t kernel = 3, int64_t stride = 1,
                 int64_t groups = 1) {
    return builder_.convolution(next("conv"), from, in, out, {kernel, kernel},
                                {{"stride", stride}, {"padding", kernel / 2}, {"groups", groups}});
  }
  NodeInput linear(const NodeInput& from, int64_t in, int64_t out) {
    return builder_.linear(next("fc"), from, in, out);
  }
  NodeInput up(const NodeInput& from, int64_t in, int64_t out) {
    return builder_.layer("convtranspose2d", next("up"), {from},
                          {{"weight", {in, out, 2, 2}}, {"bias", {out}}}, {{"stride", int64_t{2}}});
  }
  NodeInput layer_norm(const NodeInput& from, int64_t count) {
    return builder_.layer("layer_norm", next("norm"), {from}, {{"weight", {count}}, {"bias", {count}}},
                          {{"normalized_shape", Value(std::vector<int64_t>{count})}});
  }
  NodeInput pool(const NodeInput& from, int64_t kernel, int64_t stride) {
    return builder_.module("max_pool2d", next("pool"), from,
                           {{"kernel_size", kernel}, {"stride", stride}, {"padding", (kernel - 1) / 2}});
  }
  NodeInput call(const std::string& op, std::vector<NodeInput> inputs, Table attributes = {}) {
    return builder_.call(op, std::move(inputs), std::move(attributes));
  }
  NodeInput cat(std::vector<NodeInput> inputs) {
    return call("cat", std::move(inputs), {{"dim", int64_t{1}}});
  }
  NodeInput mean(const NodeInput& from) { return call("mean", {from, list({2, 3})}, {{"keepdim", true}}); }
  NodeInput resized(const NodeInput& from, const char* mode, int64_t size) {
    return call("resize", {from, NodeInput::absent(), NodeInput::absent(), list({size, size})},
                {{"mode", mode}, {"dims", Value(std::vector<int64_t>{2, 3})}});
  }
  Graph finish(const NodeInput& y) { return builder_.finish(y); }

 private:
  std::string next(const std::string& name) { return name + std::to_string(++count_); }

  GraphBuilder builder_;
  int count_ = 0;

 public:
  const NodeInput x;
};

struct Block {
  const char* name;
  Shape sample;
  std::function<NodeInput(Blocks&)> write;
};

const Shape& image() {
  static const Shape shape = {3, 16, 16};
  return shape;
}

std::vector<Block> classifier_blocks() {
  return {
      {"inception", image(),
       [](Blocks& b) {
         const NodeInput x = b.call("relu", {b.conv(b.x, 3, 24)});
         const NodeInput pooled = b.conv(b.pool(x, 3, 1), 24, 8, 1);
         return b.conv(b.cat({b.conv(x, 24, 16, 1), b.call("relu", {b.conv(x, 24, 32)}), pooled}), 56, 8, 1);
       }},
      {"efficientnet", image(),
       [](Blocks& b) {
         const NodeInput x = b.call("silu", {b.conv(b.x, 3, 16, 3, 2)});
         const NodeInput y =
             b.call("silu", {b.conv(b.call("silu", {b.conv(x, 16, 48, 1)}), 48, 48, 5, 1, 48)});
         const NodeInput squeezed = b.call("silu", {b.conv(b.mean(y), 48, 8, 1)});
         const NodeInput gate = b.call("sigmoid", {b.conv(squeezed, 8, 48, 1)});
         return b.call("add", {b.conv(b.call("mul", {gate, y}), 48, 16, 1), x});
       }},
      {"convnext", image(),
       [](Blocks& b) {
         const NodeInput x = b.conv(b.x, 3, 32, 4, 4);
         const NodeInput deep = b.call("permute", {b.conv(x, 32, 32, 7, 1, 32)}, dims({0, 2, 3, 1}));
         const NodeInput wide = b.call("gelu", {b.linear(b.layer_norm(deep, 32), 32, 128)});
         return b.call("add", {b.call("permute", {b.linear(wide, 128, 32)}, dims({0, 3, 1, 2})), x});
       }},
      {"shufflenet", {16, 8, 8}, [](Blocks& b) {
         const NodeInput x = b.call("dynamic_reshape", {b.conv(b.x, 16, 16, 1), list({-1, 2, 8, 8, 8})});
         const NodeInput mixed = b.call("permute", {x}, dims({0, 2, 1, 3, 4}));
         return b.conv(b.call("dynamic_reshape", {mixed, list({-1, 16, 8, 8})}), 16, 16, 3, 1, 16);
       }}};
}

std::vector<Block> image_blocks() {
  return {
      {"unet", image(),
       [](Blocks& b) {
         const NodeInput x = b.call("relu", {b.conv(b.x, 3, 16)});
         const NodeInput low = b.call("relu", {b.conv(b.pool(x, 2, 2), 16, 32)});
         const NodeInput raised = b.cat({b.up(low, 32, 16), b.resized(low, "linear", 16), x});
         return b.conv(raised, 64, 4, 1);
       }},
      {"superresolution", image(),
       [](Blocks& b) {
         const NodeInput x = b.conv(b.x, 3, 16);
         const NodeInput wide = b.call("dynamic_reshape", {b.conv(x, 16, 64), list({-1, 16, 2, 2, 16, 16})});
         const NodeInput turned = b.call("permute", {wide}, dims({0, 1, 4, 2, 5, 3}));
         const NodeInput y = b.call("dynamic_reshape", {turned, list({-1, 16, 32, 32})});
         return b.conv(y, 16, 3);
       }},
      {"detector", image(), [](Blocks& b) {
         const NodeInput x = b.call("silu", {b.conv(b.x, 3, 16, 3, 2)});
         const NodeInput y = b.call("silu", {b.conv(x, 16, 32, 3, 2)});
         const NodeInput pooled = b.cat({y, b.pool(y, 5, 1)});
         return b.conv(b.cat({b.resized(b.conv(pooled, 64, 16, 1), "nearest", 8), x}), 32, 8, 1);
       }}};
}

std::vector<Block> token_blocks() {
  return {
      {"attention",
       {12, 32},
       [](Blocks& b) {
         const auto heads = [&](const NodeInput& x, const std::vector<int64_t>& order) {
           return b.call("permute", {b.call("dynamic_reshape", {b.linear(x, 32, 32), list({-1, 12, 4, 8})})},
                         dims(order));
         };
         const NodeInput x = b.layer_norm(b.x, 32);
         const NodeInput scores = b.call("matmul", {heads(x, {0, 2, 1, 3}), heads(x, {0, 2, 3, 1})});
         const NodeInput shares = b.call("softmax", {scores}, {{"dim", int64_t{-1}}});
         const NodeInput taken = b.call("matmul", {shares, heads(x, {0, 2, 1, 3})});
         const NodeInput joined =
             b.call("dynamic_reshape", {b.call("permute", {taken}, dims({0, 2, 1, 3})), list({-1, 12, 32})});
         return b.call("add", {b.linear(joined, 32, 32), b.x});
       }},
      {"mixer", {12, 32}, [](Blocks& b) {
         const NodeInput turned = b.call("permute", {b.layer_norm(b.x, 32)}, dims({0, 2, 1}));
         const NodeInput mixed = b.linear(b.call("gelu", {b.linear(turned, 12, 24)}), 24, 12);
         return b.call("add", {b.x, b.call("permute", {mixed}, dims({0, 2, 1}))});
       }}};
}

std::vector<std::string> slow_steps(const Graph& graph, const Tensor& input) {
  std::vector<std::string> slow;
  for (const StepProfile& step : FastProgram(graph).profile(std::span(&input, 1), 1)) {
    if (step.is_slow()) slow.push_back(step.nodes + ": " + step.kernel + ", " + step.why);
  }
  return slow;
}

void expect_kernels(const std::vector<Block>& blocks) {
  for (const Block& block : blocks) {
    SCOPED_TRACE(block.name);
    Blocks writer(block.sample);
    PassBench bench(writer.finish(block.write(writer)));
    const Tensor input = RandomSamples(bench.sample_shape()).samples(0, 2);
    EXPECT_THAT(slow_steps(bench.graph, input), testing::IsEmpty()) << "float";
    bench.run_passes("[passes.static_quantize]\nreport = false\nnum_samples = 20\n");
    EXPECT_THAT(slow_steps(bench.graph, input), testing::IsEmpty()) << "8 bits";
  }
}

TEST(TypicalNetworks, HaveAKernelForEachStep) {
  expect_kernels(classifier_blocks());
  expect_kernels(image_blocks());
  expect_kernels(token_blocks());
}

}  // namespace
}  // namespace detent
