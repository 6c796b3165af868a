#include "detent/passes/staged_runs/executor_in_parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "detent/core/parallel.h"
#include "detent/engine/fast_executor.h"
#include "detent/graph/builder.h"
#include "detent/models/model.h"
#include "detent/passes/pass_bench_for_test.h"

namespace detent {
namespace {

/// Counts what another compiles, and the most weights in one of them.
class CountingExecutor final : public Executor {
 public:
  std::unique_ptr<const Program> compile(const Graph& graph) const override {
    int64_t bytes = 0;
    for (const Node& node : graph.nodes())
      for (const auto& [name, parameter] : node.parameters)
        bytes += static_cast<int64_t>(parameter->tensor.byte_size());
    ++compiled;
    most_bytes = std::max(most_bytes, bytes);
    return executor_.compile(graph);
  }

  mutable int compiled = 0;
  mutable int64_t most_bytes = 0;

 private:
  FastExecutor executor_;
};

using Seen = std::vector<std::pair<std::string, Tensor>>;

Observation seen_by(Seen& seen, ObservedValues values) {
  return {[&seen](const Node& node, std::string_view operand, const Tensor& value) {
            if (!node.name.starts_with("captured"))
              seen.emplace_back(node.name + "." + std::string(operand), value.clone());
          },
          values,
          {}};
}

void expect_same(const Graph& graph, const Tensor& input, const Executor& in_parts) {
  const FastExecutor whole;
  const auto program = in_parts.compile(graph);
  const auto expected = whole.compile(graph);
  EXPECT_TRUE(program->run({&input, 1})[0].equals(expected->run({&input, 1})[0]));
  for (const auto values : {ObservedValues::kBeforeQuantization, ObservedValues::kAfterQuantization}) {
    Seen seen;
    Seen wanted;
    const Tensor result = program->run({&input, 1}, seen_by(seen, values))[0];
    EXPECT_TRUE(result.equals(expected->run({&input, 1}, seen_by(wanted, values))[0]));
    ASSERT_EQ(seen.size(), wanted.size());
    for (size_t i = 0; i < seen.size(); ++i) {
      EXPECT_EQ(seen[i].first, wanted[i].first);
      EXPECT_TRUE(seen[i].second.equals(wanted[i].second)) << seen[i].first;
    }
  }
}

/// Samples of several rows run one at a time: what begins with one number is then no batch.
TEST(ExecutorInParts, RowsUnderAnotherNameAreABatchToo) {
  GraphBuilder builder("g");
  const NodeInput x = builder.input("x", TensorType{DType::kFloat32, {"samples", 32}});
  const NodeInput last = NodeInput::of_constant(Value(std::vector<int64_t>{-1}));
  const NodeInput first = NodeInput::of_constant(Value(std::vector<int64_t>{0}));
  const NodeInput sums = builder.call("sum", {builder.linear("a", x, 32, 32), last});
  const NodeInput row = builder.call("unsqueeze", {sums, first});
  const NodeInput other = builder.linear("b", x, 32, 32);
  const NodeInput column = builder.call("permute", {row}, {{"dims", List{Value(1), Value(0)}}});
  const Graph graph = builder.finish(builder.call("add", {other, column}));
  const GraphCut cut(graph);
  const std::vector<std::string> read = cut.read_from(graph.position("permute"));
  EXPECT_EQ(read, (std::vector<std::string>{"b", "sum"})) << "unsqueeze is computed from the sums again";
  EXPECT_TRUE(cut.is_read_from(graph.position("sum"), graph.position("permute")));
  EXPECT_FALSE(cut.is_read_from(graph.position("unsqueeze"), graph.position("permute")));
  EXPECT_FALSE(cut.is_read_from(graph.position("a"), graph.position("permute"))) << "read before alone";
}

/// Nodes from `index` on take these, or compute again from them what they take.
std::set<std::string> read_by_search(const Graph& graph, const GraphCut& cut, size_t index) {
  std::set<std::string> names;
  std::set<std::string> seen;
  const auto add = [&](const auto& self, const Node& reader) -> void {
    for (const NodeInput& input : reader.inputs) {
      if (input.is_constant() || graph.position(input.node) >= index) continue;
      if (!seen.insert(input.node).second) continue;
      const size_t position = graph.position(input.node);
      if (cut.is_read_from(position, position + 1)) {
        names.insert(input.node);
      } else {
        self(self, graph.nodes()[position]);
      }
    }
  };
  for (const Node& reader : graph.nodes().subspan(index)) add(add, reader);
  return names;
}

TEST(ExecutorInParts, LastReadersAreThoseThatASearchFinds) {
  for (const char* model : {"digits_cnn", "resnet20"}) {
    const Graph graph = build_model(model, {3, 32, 32}, 10);
    const GraphCut cut(graph);
    for (size_t i = 0; i < graph.nodes().size(); ++i) {
      const std::vector<std::string> read = cut.read_from(i);
      EXPECT_EQ(std::set<std::string>(read.begin(), read.end()), read_by_search(graph, cut, i)) << model << i;
    }
  }
}

/// In float and in integers, over residual connections.
TEST(ExecutorInParts, ComputesAndShowsWhatTheWholeNetworkDoes) {
  PassBench bench(build_model("digits_cnn", {1, 8, 8}, 10));
  const Tensor input = RandomSamples(bench.sample_shape()).samples(0, 3);
  const CountingExecutor counting;
  const ExecutorInParts in_parts(counting, 0, 1024);
  expect_same(bench.graph, input, in_parts);
  EXPECT_GT(counting.compiled, 6);
  bench.run_passes("[passes.static_quantize]\nnum_samples = 16\nweights = \"int4\"");
  Graph without_input_codes = bench.graph;
  for (const std::string& name : bench.graph.input_names())
    without_input_codes.node(name).quantization.clear();
  const int before = counting.compiled;
  expect_same(without_input_codes, input, in_parts);
  EXPECT_GT(counting.compiled, before + 6);
}

Graph three_layers() {
  GraphBuilder b("three");
  NodeInput x = b.input("x", {8});
  for (const char* name : {"first", "second", "third"}) x = b.linear(name, x, 8, 8);
  return b.finish(x);
}

TEST(ExecutorInParts, KeepsNoPart) {
  PassBench bench(three_layers());
  const CountingExecutor counting;
  const auto program = ExecutorInParts(counting, 0, 256).compile(bench.graph);
  EXPECT_EQ(counting.compiled, 0);
  const Tensor input = RandomSamples(bench.sample_shape()).samples(0, 2);
  for (int run = 1; run <= 2; ++run) {
    program->run({&input, 1});
    EXPECT_EQ(counting.compiled, 3 * run);
  }
  EXPECT_LE(counting.most_bytes, 8 * 9 * 4);
}

/// Nodes by which a staged run captures values are read by no other.
TEST(ExecutorInParts, ShowsWhatNoNodeReads) {
  GraphBuilder b("with others");
  NodeInput x = b.input("x", {8});
  for (const char* name : {"first", "second", "third"}) {
    x = b.linear(name, x, 8, 8);
    b.call("relu", {x});
  }
  PassBench bench(b.finish(b.call("tanh", {x})));
  const FastExecutor whole;
  const ExecutorInParts in_parts(whole, 0, 256);
  const Tensor input = RandomSamples(bench.sample_shape()).samples(0, 2);
  expect_same(bench.graph, input, in_parts);
  Seen seen;
  static_cast<void>(
      in_parts.compile(bench.graph)->run({&input, 1}, seen_by(seen, ObservedValues::kBeforeQuantization)));
  const auto is_taken = [](const auto& one) {
    return one.first.starts_with("relu") && one.first.ends_with("data_in_0");
  };
  EXPECT_EQ(std::ranges::count_if(seen, is_taken), 3);
}

/// Parts as they were compiled, whatever changes in the graph later.
TEST(ExecutorInParts, CutsPartsAgainAndRunsThemAtOnce) {
  PassBench bench(three_layers());
  const FastExecutor whole;
  const ExecutorInParts once(whole, 0, 256);
  const auto program = ExecutorInParts(once, 0, 512).compile(bench.graph);
  const Tensor input = RandomSamples(bench.sample_shape()).samples(0, 2);
  const Tensor expected = whole.run(bench.graph, {&input, 1});
  bench.graph.node("second").find_parameter("weight")->tensor = Tensor(DType::kFloat32, {8, 8});
  parallel_for(8, 1, [&](int64_t /*begin*/, int64_t /*end*/) {
    EXPECT_TRUE(program->run({&input, 1})[0].equals(expected));
  });
}

TEST(ExecutorInParts, CompilesSmallNetworksAsAWhole) {
  PassBench bench(three_layers());
  const CountingExecutor counting;
  const auto program = ExecutorInParts(counting).compile(bench.graph);
  EXPECT_EQ(counting.compiled, 1);
  GraphBuilder b("two outputs");
  const NodeInput x = b.linear("first", b.input("x", {8}), 8, 8);
  Graph two = b.finish(b.linear("second", x, 8, 8));
  two.nodes().back().inputs.push_back(x);
  static_cast<void>(ExecutorInParts(counting, 0, 1).compile(two));
  EXPECT_EQ(counting.compiled, 2);
}

}  // namespace
}  // namespace detent
