// A training that is interrupted and resumed gives the same bytes as one that is not.

#include <csignal>
#include <filesystem>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "detent/autograd/initialize.h"
#include "detent/core/error.h"
#include "detent/core/interruption.h"
#include "detent/files/safetensors.h"
#include "detent/formats/quant_spec.h"
#include "detent/graph/builder.h"
#include "detent/graph/owned_parameters.h"
#include "detent/training/trainer.h"

namespace detent {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Everything that has a state of its own: dropout draws from the generator, batch norm tracks statistics, a
/// stochastic format counts runs.
Graph stateful_network() {
  GraphBuilder builder("stateful");
  NodeInput x = builder.call("flatten", {builder.input("x", {1, 2, 2})});
  x = builder.linear("first", x, 4, 24);
  x = builder.batch_norm("batch_norm1d", "norm", x, 24);
  x = builder.module("relu", "relu", x);
  x = builder.module("dropout", "dropout", x, {{"p", 0.3}});
  x = builder.linear("last", x, 24, 2);
  Graph graph = builder.finish(x);
  seed_everything(3);
  initialize_parameters(graph);
  graph.node("last").quantization["weight"] = parse_quant_spec_text("binary:stochastic=true");
  return graph;
}

/// The same with scales that are collected in the first ten steps and trained from there on.
Graph quantized_network() {
  Graph graph = stateful_network();
  for (const char* layer : {"first", "last"}) {
    Quantizer inputs(parse_quant_spec_text("int4:scale_rule=learned"));
    inputs.parameters.emplace_back(
        "scale", Parameter{Tensor::from<float>({}, std::vector{std::numeric_limits<float>::quiet_NaN()})});
    inputs.observer = ScaleObserver{.steps = 10};
    graph.node(layer).quantization["data_in_0"] = std::move(inputs);
  }
  Quantizer weights(parse_quant_spec_text("int2:scale_rule=learned"));
  weights.parameters.emplace_back("log2_scale", Parameter{Tensor::from<float>({}, std::vector{-2.0F})});
  graph.node("first").quantization["weight"] = std::move(weights);
  return graph;
}

/// The same with weights that are rounded at random with the norm after them, that learn how they are
/// rounded, and an exponent bias.
Graph network_of_roundings() {
  Graph graph = stateful_network();
  const auto number = [](float value) { return Tensor::from<float>({}, std::vector{value}); };
  Quantizer drawn(parse_quant_spec_text("int3:scale_rule=learned"));
  drawn.parameters.emplace_back("scale", Parameter{number(0.1F)});
  drawn.rounding = Rounding::kStochastic;
  drawn.norm_folding = NormFolding::kCorrected;
  graph.node("first").quantization["weight"] = std::move(drawn);
  Node& last = graph.node("last");
  Quantizer learned(parse_quant_spec_text("int3:scale_rule=learned"));
  learned.parameters.emplace_back("scale", Parameter{number(0.1F), false});
  learned.rounding = Rounding::kLearned;
  learned.parameters.emplace_back(kRoundUp, Parameter{last.find_parameter("weight")->tensor.clone()});
  last.find_parameter("weight")->trainable = false;
  last.quantization["weight"] = std::move(learned);
  Quantizer inputs(parse_quant_spec_text("minifloat_ieee:width=6,exponent_width=3"));
  inputs.parameters.emplace_back(kExponentBias, Parameter{number(3)});
  last.quantization["data_in_0"] = std::move(inputs);
  return graph;
}

/// When a signal comes; 0: never.
struct SignalAt {
  int64_t step = 0;               // when it is reported
  int64_t validation_sample = 0;  // of all validations together, when it is loaded
  int64_t epoch = 0;              // when it is reported
};

/// A copy of a data set that sends a signal when it loads that sample.
class SignallingDataset final : public Dataset {
 public:
  SignallingDataset(const Dataset& original, int64_t signal_at)
      : Dataset(original.sample_shape(), original.class_count(),
                {original.labels().begin(), original.labels().end()}, original.source()),
        original_(original),
        until_signal_(signal_at) {}

 private:
  void copy_sample(int64_t index, std::span<float> target) const override {
    if (--until_signal_ == 0) std::raise(SIGTERM);
    const Batch batch = original_.batch(std::span(&index, 1));
    std::ranges::copy(batch.inputs[0].values<float>(), target.begin());
  }

  const Dataset& original_;
  mutable int64_t until_signal_;
};

class ResumeTest : public testing::Test {
 protected:
  ~ResumeTest() override { fs::remove(path_); }

  /// Trains from the beginning, or from the saved state. What is saved goes through the file.
  TrainingOutcome train_some(Graph& graph, const TrainingOptions& options, const SignalAt& signal_at,
                             bool resume) {
    const auto data = make_dataset("toy_tiny", Split::kTrain);
    const SignallingDataset validation(*data, signal_at.validation_sample);
    TrainingHooks hooks;
    hooks.save = [&](const TrainingState& state) { write_training(path_, {state, {}, {}}); };
    std::optional<SavedTraining> saved;
    if (resume) {
      seed_everything(99);  // what is restored does not depend on what was drawn before
      saved = read_training(path_);
      hooks.resume = &saved->state;
      hooks.resume_source = path_;
    }
    hooks.on_step = [&](const StepReport& report) {
      if (report.global_step == signal_at.step) std::raise(SIGTERM);
    };
    epochs_reported_ = 0;
    hooks.on_epoch = [&](const EpochReport& report) {
      ++epochs_reported_;
      if (report.epoch == signal_at.epoch) std::raise(SIGTERM);
    };
    const StopSignals signals;
    return train(graph, *data, validation, options, hooks);
  }

  /// Both the network and all that training remembers are in the file that is written last.
  SafetensorsFile final_state() const { return read_safetensors(path_); }

  void expect_equal_bytes(const TrainingOptions& options) {
    Graph whole = make_network_();
    ASSERT_EQ(train_some(whole, options, {}, false).end, TrainingEnd::kFinished);
    const SafetensorsFile expected = final_state();
    const int64_t batches = (512 + options.batch_size - 1) / options.batch_size;
    struct Stop {
      SignalAt signal;
      int64_t epoch;
      int64_t step;
      bool is_after_batches;  // all those of the epoch
    };
    // When the workers agree on what a step does, this one's hooks have not run yet: the next one stops.
    const Stop stops[] = {{{.step = 2}, 1, 3, false},
                          {{.step = 7}, 1, 8, true},
                          {{.step = 8}, 1, 8, true},
                          {{.validation_sample = 100}, 1, 8, true},
                          {{.epoch = 1}, 2, 8, false},
                          {{.step = 18}, 3, 19, false},
                          {{.validation_sample = 2 * 512 + 100}, 3, 24, true},
                          {{.epoch = 3}, 4, 24, false}};
    for (const Stop& stop : stops) {
      SCOPED_TRACE(fmt::format("step {}, sample {}, epoch {}", stop.signal.step,
                               stop.signal.validation_sample, stop.signal.epoch));
      Graph begun = make_network_();
      const TrainingOutcome stopped = train_some(begun, options, stop.signal, false);
      ASSERT_EQ(stopped.end, TrainingEnd::kSignal);
      EXPECT_EQ(stopped.signal, SIGTERM);
      EXPECT_EQ(stopped.progress.global_step, stop.step);
      EXPECT_EQ(stopped.progress.epoch, stop.epoch);
      EXPECT_EQ(stopped.progress.batches == batches, stop.is_after_batches);
      EXPECT_EQ(epochs_reported_, stop.epoch - 1);
      expect_goes_on_to(expected, options);
    }
  }

  void expect_goes_on_to(const SafetensorsFile& expected, const TrainingOptions& options) {
    Graph resumed = make_network_();
    ASSERT_EQ(train_some(resumed, options, {}, true).end, TrainingEnd::kFinished);
    const SafetensorsFile state = final_state();
    EXPECT_EQ(state.metadata, expected.metadata);
    ASSERT_EQ(state.tensors.size(), expected.tensors.size());
    for (size_t i = 0; i < state.tensors.size(); ++i) {
      EXPECT_EQ(state.tensors[i].first, expected.tensors[i].first);
      EXPECT_TRUE(state.tensors[i].second.equals(expected.tensors[i].second)) << state.tensors[i].first;
    }
  }

  static TrainingOptions short_training(OptimizerKind kind) {
    TrainingOptions options;
    options.training_optimizer = kind;
    options.batch_size = 64;  // 8 steps an epoch
    options.max_epochs = 3;
    options.log_every_n_steps = 1;
    return options;
  }

  int64_t epochs_reported_ = 0;
  Graph (*make_network_)() = stateful_network;
  fs::path path_ = fs::temp_directory_path() / fmt::format("detent_resume_{}.safetensors", getpid());
};

TEST_F(ResumeTest, AdamGivesTheSameBytes) {
  TrainingOptions options = short_training(OptimizerKind::kAdam);
  options.amsgrad = true;
  options.weight_decay = 0.01;
  expect_equal_bytes(options);
}

TEST_F(ResumeTest, AdamWWithClippedGradientsGivesTheSameBytes) {
  TrainingOptions options = short_training(OptimizerKind::kAdamW);
  options.gradient_clip_norm = 0.5;
  options.parameter_groups.groups = {{".*bias", 0.1, 0.0}};
  expect_equal_bytes(options);
}

TEST_F(ResumeTest, SgdWithAccumulatedBatchesGivesTheSameBytes) {
  TrainingOptions options = short_training(OptimizerKind::kSgd);
  options.batch_size = 24;  // 22 batches, of which the last is small: 8 steps, the last of one batch
  options.accumulate_grad_batches = 3;
  options.learning_rate = 0.05;
  expect_equal_bytes(options);
}

/// Stopped while scales are collected (steps 2 to 8), while widths fall (8 bits until step 6, 4 until 12),
/// and while scales are learned.
TEST_F(ResumeTest, QuantizersGiveTheSameBytesInEveryPhase) {
  make_network_ = quantized_network;
  TrainingOptions options = short_training(OptimizerKind::kAdam);
  options.narrowing = {8, 4};
  options.narrowing_steps = 6;
  options.scale_learning_rate = 0.002;
  options.ema_decay = 0.9;
  options.mixup = 0.2;
  options.quantize_after = 4;
  options.freeze_batch_norm_after = 16;
  options.learning_rate_schedule = ScheduleKind::kCosineSteps;
  expect_equal_bytes(options);
}

TEST_F(ResumeTest, AFinishedTrainingStaysAsItIs) {
  const TrainingOptions options = short_training(OptimizerKind::kAdam);
  Graph graph = stateful_network();
  train_some(graph, options, {}, false);
  const SafetensorsFile before = final_state();
  const TrainingOutcome again = train_some(graph, options, {}, true);
  EXPECT_EQ(again.end, TrainingEnd::kFinished);
  EXPECT_EQ(again.progress.global_step, 24);
}

TEST_F(ResumeTest, MoreEpochsGoOnFromTheEnd) {
  TrainingOptions options = short_training(OptimizerKind::kAdam);
  options.learning_rate_schedule = ScheduleKind::kConstant;
  Graph whole = stateful_network();
  train_some(whole, options, {}, false);
  const SafetensorsFile expected = final_state();
  options.max_epochs = 1;
  Graph part = stateful_network();
  train_some(part, options, {}, false);
  options.max_epochs = 3;
  train_some(part, options, {}, true);
  EXPECT_EQ(final_state().metadata, expected.metadata);
  EXPECT_TRUE(final_state().tensors[0].second.equals(expected.tensors[0].second));
}

TEST_F(ResumeTest, SavesBetweenEpochsWhenAsked) {
  const auto data = make_dataset("toy_tiny", Split::kTrain);
  std::vector<int64_t> steps;
  TrainingHooks hooks;
  hooks.save = [&](const TrainingState& state) { steps.push_back(state.progress.global_step); };
  hooks.save_every = 3;
  TrainingOptions options = short_training(OptimizerKind::kAdam);
  options.max_epochs = 1;
  Graph graph = stateful_network();
  train(graph, *data, *data, options, hooks);
  EXPECT_THAT(steps, testing::ElementsAre(3, 6, 8));
}

TEST_F(ResumeTest, RefusesTheStateOfAnotherNetwork) {
  const TrainingOptions options = short_training(OptimizerKind::kAdam);
  Graph graph = stateful_network();
  train_some(graph, options, {.step = 3}, false);
  GraphBuilder builder("other");
  Graph other =
      builder.finish(builder.linear("first", builder.call("flatten", {builder.input("x", {1, 2, 2})}), 4, 2));
  EXPECT_THAT([&] { train_some(other, options, {}, true); },
              ThrowsMessage<Error>(AllOf(HasSubstr(path_), HasSubstr("\"norm.weight\""))));
}

TEST_F(ResumeTest, RoundingsThatAreDrawnOrLearnedGiveTheSameBytes) {
  make_network_ = network_of_roundings;
  TrainingOptions options = short_training(OptimizerKind::kAdam);
  options.rounding_penalty = 0.5;
  options.reestimate_batch_norm = 3;
  expect_equal_bytes(options);
}

TEST_F(ResumeTest, RefusesOtherWorkersAndOtherOptimizers) {
  const TrainingOptions options = short_training(OptimizerKind::kAdam);
  Graph graph = stateful_network();
  train_some(graph, options, {.step = 3}, false);
  SavedTraining saved = read_training(path_);
  const auto resume_error = [&](const SavedTraining& changed, const char* message) {
    write_training(path_, changed);
    Graph again = stateful_network();
    EXPECT_THAT([&] { train_some(again, options, {}, true); },
                ThrowsMessage<Error>(AllOf(HasSubstr(path_), HasSubstr(message))));
  };
  SavedTraining changed = saved;
  changed.state.workers = Tensor(DType::kUInt8, {2, saved.state.workers.dim(1)});
  resume_error(changed, "got the state of workers [2, ");
  changed = saved;
  changed.state.optimizer[1].second = Tensor(DType::kFloat32, {7});
  resume_error(changed, "\"first.weight.exp_avg\" of the optimizer is float32 [7], expected float32 [24, 4]");
  changed = saved;
  changed.state.optimizer.erase(changed.state.optimizer.begin());
  resume_error(changed, "of the optimizer's \"first.weight\" it holds 2 of 3 entries");
  changed = saved;
  changed.state.optimizer.emplace_back("gone.step", Tensor(DType::kInt64, {}));
  resume_error(changed, "\"gone.step\" of the optimizer belongs to no parameter");
  changed = saved;
  changed.state.progress.batches = 9;
  resume_error(changed, "9 batches of an epoch are done, but it has 8");
}

TEST_F(ResumeTest, RefusesFilesThatAreNoTraining) {
  const auto error = [&](const char* message) {
    EXPECT_THAT([&] { read_training(path_); },
                ThrowsMessage<Error>(AllOf(HasSubstr(path_), HasSubstr(message))));
  };
  const std::vector<std::pair<std::string, Tensor>> tensors = {{"workers", Tensor(DType::kUInt8, {1, 1})}};
  write_safetensors(path_, tensors);
  error("not the state of a training");
  std::map<std::string, std::string> metadata = {
      {"format", "detent training 1"}, {"settings", "{}"}, {"logs", "{}"}};
  write_safetensors(path_, tensors, metadata);
  error("the metadata lack \"progress\"");
  metadata["progress"] = "[]";
  write_safetensors(path_, tensors, metadata);
  error("\"progress\" is a list");
  metadata["progress"] = R"({"epoch": 0})";
  write_safetensors(path_, tensors, metadata);
  error("key \"epoch\": got 0");
  metadata["progress"] = "{}";
  write_safetensors(path_, {}, metadata);
  error("it lacks the tensor \"workers\"");
  write_file(path_, "cut");
  error("");
}

}  // namespace
}  // namespace detent
