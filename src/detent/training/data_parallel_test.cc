// Several workers as threads of this process, joined over loopback.

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/core/Tensor.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include "detent/autograd/initialize.h"
#include "detent/autograd/interpreter.h"
#include "detent/autograd/torch_tensor.h"
#include "detent/core/error.h"
#include "detent/core/reserved_port_for_test.h"
#include "detent/datasets/dataset.h"
#include "detent/engine/fast_executor.h"
#include "detent/evaluation/batches.h"
#include "detent/evaluation/evaluate.h"
#include "detent/graph/builder.h"
#include "detent/training/epoch_batches.h"
#include "detent/training/gloo_group.h"
#include "detent/training/gradient_exchange.h"

namespace detent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Calls body(group) for each of `size` workers, each in a thread of its own.
void with_workers(int size, const std::function<void(ProcessGroup&)>& body,
                  std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
  const int port = reserved_port_for_test();
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::string errors;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const WorkerEnvironment workers{rank, size, "127.0.0.1", port};
        const auto table = std::make_shared<Rendezvous>(workers, timeout);
        const auto group = join_with_gloo(workers, timeout, table);
        body(*group);
      } catch (const std::exception& error) {
        const std::lock_guard lock(mutex);
        errors += error.what() + std::string("\n");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (!errors.empty()) throw Error(errors);
}

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

TEST(Workers, GatherBytesOfAnyLengthInTheOrderOfRanks) {
  with_workers(3, [](ProcessGroup& group) {
    const std::vector<std::string> texts = {"first", "", "the third is longest"};
    const auto gathered = group.all_gather(bytes_of(texts[static_cast<size_t>(group.rank())]));
    ASSERT_EQ(gathered.size(), 3U);
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(gathered[i], bytes_of(texts[i]));
  });
}

TEST(Workers, GatherNothing) {
  with_workers(2, [](ProcessGroup& group) {
    EXPECT_EQ(group.all_gather({}), std::vector<std::vector<std::byte>>(2));
  });
}

TEST(Workers, SumFloats) {
  with_workers(3, [](ProcessGroup& group) {
    std::vector<float> values = {static_cast<float>(group.rank()), 1};
    group.all_reduce_sum(values);
    EXPECT_THAT(values, ElementsAre(3, 3));
  });
}

TEST(Workers, OneThatStopsMakesTheOthersStop) {
  const auto body = [](ProcessGroup& group) {
    if (group.rank() == 1) return;
    group.all_gather({});
  };
  EXPECT_THAT([&] { with_workers(2, body, std::chrono::seconds(5)); },
              ThrowsMessage<Error>(HasSubstr("worker 0 of 2")));
}

TEST(Workers, ASilentOneIsWaitedForNoLongerThanTheTimeout) {
  std::mutex mutex;
  std::condition_variable is_over;
  bool over = false;
  const auto body = [&](ProcessGroup& group) {
    if (group.rank() == 1) {
      std::unique_lock lock(mutex);
      return is_over.wait(lock, [&] { return over; });
    }
    const auto begin = std::chrono::steady_clock::now();
    std::vector<float> values(100'000);
    EXPECT_THROW(group.all_reduce_sum(values), Error);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
    const std::lock_guard lock(mutex);
    over = true;
    is_over.notify_all();
  };
  with_workers(2, body, std::chrono::seconds(1));
}

TEST(Workers, GradientsOfParametersThatSomeWorkerHas) {
  with_workers(2, [](ProcessGroup& group) {
    const std::vector<NamedParameter> parameters = {
        {"a", at::zeros({2})}, {"b", at::zeros({3})}, {"c", at::zeros({1})}};
    if (group.rank() == 0) parameters[0].second.mutable_grad() = at::full({2}, 5.0F);
    parameters[1].second.mutable_grad() = at::full({3}, static_cast<float>(group.rank() + 1));
    std::vector<float> others = {1, static_cast<float>(group.rank())};
    sum_gradients(parameters, others, group);
    EXPECT_EQ(parameters[0].second.grad()[1].item<float>(), 5);
    EXPECT_EQ(parameters[1].second.grad()[2].item<float>(), 3);
    EXPECT_FALSE(parameters[2].second.grad().defined());
    EXPECT_THAT(others, ElementsAre(2, 1));
  });
}

/// A convolution, whose weights are rounded with the batch norm after it folded in where `folding` says so.
Graph network_with_norm(NormFolding folding) {
  GraphBuilder builder("norms");
  NodeInput x = builder.convolution("conv", builder.input("x", {2, 5, 5}), 2, 4, {3, 3});
  x = builder.batch_norm("batch_norm2d", "norm", x, 4);
  Graph graph = builder.finish(builder.linear("fc", builder.call("flatten", {x}), 36, 3));
  seed_everything(3);
  initialize_parameters(graph);
  if (folding == NormFolding::kNo) return graph;
  const auto number = [](float value) { return Tensor::from<float>({}, std::vector{value}); };
  Quantizer weight(parse_quant_spec_text("int4:scale_rule=learned"));
  weight.parameters.emplace_back("scale", Parameter{number(0.1F)});
  weight.norm_folding = folding;
  graph.node("conv").quantization["weight"] = std::move(weight);
  return graph;
}

/// Gradients, by name, and running statistics of one step.
std::map<std::string, at::Tensor> step_of(Graph& graph, Interpreter& interpreter, const at::Tensor& input,
                                          const at::Tensor& wanted, ProcessGroup& group) {
  interpreter.run(input).mul(wanted).sum().backward();
  const std::vector<NamedParameter> parameters = interpreter.named_trainable_parameters();
  sum_gradients(parameters, {}, group);
  std::map<std::string, at::Tensor> result;
  for (const auto& [name, parameter] : parameters)  // the norm takes the bias of the layer before away
    if (parameter.grad().defined()) result[name] = parameter.grad().clone();
  for (const char* name : {"running_mean", "running_var"})
    result[name] = to_torch(graph.node("norm").find_parameter(name)->tensor).clone();
  return result;
}

class BatchNormOfWorkers : public testing::TestWithParam<NormFolding> {};

/// Shares of 2, 2 and 3 samples.
TEST_P(BatchNormOfWorkers, IsThatOfTheWholeBatch) {
  seed_everything(5);
  const at::Tensor input = at::randn({7, 2, 5, 5}).mul(3).add(1);
  const at::Tensor wanted = at::randn({7, 3});
  Graph whole = network_with_norm(GetParam());
  Interpreter alone(whole);
  const auto expected = step_of(whole, alone, input, wanted, single_process());
  std::vector<Graph> graphs;
  for (int i = 0; i < 3; ++i) graphs.push_back(network_with_norm(GetParam()));
  with_workers(3, [&](ProcessGroup& group) {
    const int64_t from = 2 * group.rank();
    const int64_t count = group.rank() == 2 ? 3 : 2;
    Graph& graph = graphs[static_cast<size_t>(group.rank())];
    Interpreter interpreter(graph);
    interpreter.gather_over_workers([&](const at::Tensor& own) { return gather_samples(own, group); });
    const auto found =
        step_of(graph, interpreter, input.narrow(0, from, count), wanted.narrow(0, from, count), group);
    ASSERT_EQ(found.size(), expected.size());
    for (const auto& [name, value] : found)
      EXPECT_TRUE(at::allclose(value, expected.at(name), 1e-4, 1e-5)) << name << value << expected.at(name);
  });
}

std::string folding_name(const testing::TestParamInfo<NormFolding>& folding) {
  return enum_name(folding.param);
}

INSTANTIATE_TEST_SUITE_P(Foldings, BatchNormOfWorkers,
                         testing::Values(NormFolding::kNo, NormFolding::kBatch, NormFolding::kCorrected),
                         folding_name);

class RankOnly final : public ProcessGroup {
 public:
  RankOnly(int rank, int size) : rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte>) override { return {}; }
  void all_reduce_sum(std::span<float>) override {}

 private:
  int rank_;
  int size_;
};

TEST(Workers, TakeTurnsAtTheBatches) {
  const std::vector<int64_t> order = sequential_order(11);
  const std::vector<BatchSamples> batches = cut_into_batches(order, 3);
  const auto of_worker = [&](int rank) { return worker_batches(batches, RankOnly(rank, 3)); };
  ASSERT_EQ(of_worker(0).size(), 2U);
  EXPECT_THAT(of_worker(0)[1], ElementsAre(9, 10));
  ASSERT_EQ(of_worker(1).size(), 1U);
  EXPECT_THAT(of_worker(1)[0], ElementsAre(3, 4, 5));
  EXPECT_THAT(worker_batches(cut_into_batches(order, 8), RankOnly(2, 3)), ElementsAre());
}

TEST(Workers, ShareTheSamplesOfABatch) {
  const std::vector<int64_t> samples = {5, 6, 7, 8};
  EXPECT_THAT(worker_share(samples, RankOnly(0, 3)), ElementsAre(5));
  EXPECT_THAT(worker_share(samples, RankOnly(1, 3)), ElementsAre(6));
  EXPECT_THAT(worker_share(samples, RankOnly(2, 3)), ElementsAre(7, 8));
  EXPECT_THAT(worker_share(BatchSamples(samples).first(1), RankOnly(0, 3)), ElementsAre());
}

TEST(Workers, AgreeToStopAnEvaluationBetweenItsBatches) {
  GraphBuilder builder("linear");
  Graph graph =
      builder.finish(builder.linear("fc", builder.call("flatten", {builder.input("x", {1, 2, 2})}), 4, 2));
  initialize_parameters(graph);
  const auto data = make_dataset("toy_tiny", Split::kTest);  // 512 samples: 7 batches, 3 rounds of 3 workers
  const Metrics whole = evaluate(*FastExecutor().compile(graph), graph, *data, 80);
  for (const int stop_at : {1, 3, 4}) {
    with_workers(3, [&](ProcessGroup& group) {
      int asked = 0;
      const auto stop = [&] {
        std::vector<float> vote = {group.rank() == 2 && ++asked == stop_at ? 1.0F : 0.0F};
        group.all_reduce_sum(vote);
        return vote[0] > 0;
      };
      const std::optional<Metrics> metrics =
          evaluate_until(stop, *FastExecutor().compile(graph), graph, *data, 80, group, 0);
      ASSERT_EQ(metrics.has_value(), stop_at == 4);
      if (metrics) {
        EXPECT_EQ(metrics->loss_sum, whole.loss_sum);
      }
    });
  }
}

}  // namespace
}  // namespace detent
