#include <algorithm>
#include <map>
#include <mutex>

#include <fmt/ranges.h>

#include "detent/core/error.h"
#include "detent/core/log.h"
#include "detent/core/parallel.h"
#include "detent/core/progress.h"
#include "detent/core/read_ahead.h"
#include "detent/graph/graph_parameters.h"
#include "detent/graph/value_sizes.h"
#include "detent/passes/analysis/profile_progress.h"
#include "detent/passes/analysis/profile_request.h"
#include "detent/passes/passes.h"
#include "detent/passes/staged_runs/staged_run.h"

// Collects statistics of weights and of the inputs and outputs of nodes:
//
//     [passes.profile_statistics]      by = "type" | "name" | "regex_name"; target_weight_nodes,
//                                      target_activation_nodes; profile_output_activation; num_samples
//     [passes.profile_statistics.weight_statistics.<statistic>]        options of the statistic
//     [passes.profile_statistics.activation_statistics.<statistic>]
//
// Activations come from the training set, shuffled. Results stand in the statistics of each operand.
// observed_values says whether quantized operands are seen before or after they are rounded to their format.
//
// The kernels of a network may round differently for batches of different sizes. Its inputs are therefore run
// in micro-batches that depend on the network and the order of the samples alone, each on one thread: how
// many workers and threads share them, and the batch size, do not change a bit of what is collected.

namespace detent {
namespace {

/// Samples of a micro-batch: 64, fewer of networks that take more memory for that.
int64_t micro_batch(const Graph& graph) {
  constexpr int64_t kMost = 64;
  return std::min(kMost, samples_within(graph, kActivationBytes));
}
/// Micro-batches that run at once, at most, a thread each: each needs the memory of a forward pass.
constexpr int64_t kMostAtOnce = 16;

/// Samples that are profiled, as the request and the data say.
int64_t wanted_samples(const ProfileOptions& options, const CalibrationSet& data,
                       const PassContext& context) {
  const int64_t batches = (options.num_samples + context.batch_size - 1) / context.batch_size;
  const int64_t wanted = options.exact_num_samples ? options.num_samples : batches * context.batch_size;
  return std::min(wanted, data.size());
}

/// The worker's share of the micro-batches.
class MicroBatches {
 public:
  MicroBatches(const CalibrationSet& data, std::vector<SampleRange> all, const ProcessGroup& group)
      : data_(data), all_(std::move(all)), rank_(group.rank()), workers_(group.size()) {}

  /// Micro-batches of this worker.
  int64_t count() const { return (std::ssize(all_) - rank_ + workers_ - 1) / workers_; }
  int64_t first_sample(int64_t index) const { return range(index).begin; }
  std::vector<Tensor> load(int64_t index) const { return data_.inputs(range(index).begin, range(index).end); }

 private:
  const SampleRange& range(int64_t index) const {
    return all_[static_cast<size_t>(index * workers_ + rank_)];
  }

  const CalibrationSet& data_;
  std::vector<SampleRange> all_;
  int64_t rank_;
  int64_t workers_;
};

/// Collector of an operand's values.
struct Observed {
  ProfileSweep sweep = {};
  std::mutex mutex = {};  // of its probes

  /// In any order of the micro-batches.
  void update(const Tensor& value, int64_t first_sample) {
    const std::lock_guard lock(mutex);
    Collector& collector = sweep.probe->collector;
    if (sweep.post_relu != nullptr) return collector.update_with_post_relu(value, sweep.post_relu->collector);
    collector.update(value, first_sample);
  }
};
using ObservedOperands = std::map<std::pair<std::string, std::string>, Observed>;

ObservedOperands observed_operands(const Graph& graph, const SweepPlan& plan) {
  ObservedOperands observed;
  for (const ProfileSweep& sweep : plan.sweeps)
    observed[{graph.nodes()[sweep.probe->node].name, sweep.probe->operand}].sweep = sweep;
  return observed;
}

/// Runs adjacent micro-batches, from `first` on, a thread each.
void run_at_once(const Program& program, const MicroBatches& batches, int64_t first,
                 std::span<const std::vector<Tensor>> inputs, ObservedValues values,
                 ObservedOperands& observed) {
  auto shown = Observation::of_none(values);
  for (const auto& [operand, by] : observed) shown.operands->insert(operand);
  shown.in_any_order = std::ranges::all_of(
      observed, [](const auto& entry) { return entry.second.sweep.probe->collector.takes_any_order(); });
  parallel_for(std::ssize(inputs), 1, [&](int64_t index, int64_t /*end*/) {
    const int64_t first_sample = batches.first_sample(first + index);
    Observation observation = shown;
    observation.see = [&](const Node& node, std::string_view operand, const Tensor& value) {
      observed.at({node.name, std::string(operand)}).update(value, first_sample);
    };
    program.run(inputs[static_cast<size_t>(index)], observation);
  });
}

/// Checksum of the first `count` micro-batches.
InputChecksum input_checksum(const MicroBatches& batches, int64_t count, const PassContext& context) {
  InputChecksum checksum;
  ReadAhead<std::vector<Tensor>> loaded(count, context.loader_threads,
                                        [&](int64_t index) { return batches.load(index); });
  for (int64_t i = 0; i < count; ++i) checksum.add(loaded.take());
  return checksum;
}

void run_share(const Graph& graph, const MicroBatches& batches, const SweepPlan& plan, ObservedValues values,
               std::vector<Probe>& probes, const ProfileProgress* progress, PassContext& context) {
  ObservedOperands observed = observed_operands(graph, plan);
  InputChecksum seen;
  int64_t done = 0;
  if (progress != nullptr) {
    const auto checksum_of = [&](int64_t count) { return seen = input_checksum(batches, count, context); };
    done = progress->restore(probes, checksum_of, context.warn);
    if (done == 0) seen = {};
  }
  ReadAhead<std::vector<Tensor>> loaded(
      batches.count() - done, context.loader_threads,
      [&, first = done](int64_t index) { return batches.load(first + index); });
  Progress shown("profiling, micro-batches", batches.count(),
                 {.begin = done, .shown = context.group->is_first()});
  const std::unique_ptr<const Program> program = context.executor().compile(graph);
  const int64_t at_once = std::min<int64_t>(thread_count(), kMostAtOnce);
  while (done < batches.count()) {
    int64_t end = std::min(batches.count(), done + at_once);
    if (progress != nullptr) {
      const int64_t next_save = (done / context.checkpoint_every + 1) * context.checkpoint_every;
      end = std::min(end, next_save);
    }
    std::vector<std::vector<Tensor>> inputs;
    for (int64_t i = done; i < end; ++i) {
      inputs.push_back(loaded.take());
      if (progress != nullptr) seen.add(inputs.back());
    }
    run_at_once(*program, batches, done, inputs, values, observed);
    done = end;
    if (progress != nullptr && done % context.checkpoint_every == 0) progress->save(probes, done, seen);
    shown.update(done);
  }
}

/// Every worker then holds what all have seen.
void merge_over_workers(const ProfileRequest& request, std::vector<Probe>& probes, PassContext& context) {
  if (context.group->size() == 1) return;
  for (Probe& probe : probes) {
    Collector merged(request.activation_statistics, context.where);
    for (const std::vector<std::byte>& state : context.group->all_gather(probe.collector.serialize())) {
      Collector part(request.activation_statistics, context.where);
      part.deserialize(state);
      merged.merge(part);
    }
    probe.collector = std::move(merged);
  }
}

/// Runs the network and fills the probes; returns how many samples all workers have run.
int64_t run_activations(const Graph& graph, const ProfileRequest& request, std::vector<Probe>& probes,
                        PassContext& context) {
  const std::unique_ptr<CalibrationSet> data = context.open_calibration();
  const Graph& sampled = context.sampled(graph);
  const std::vector<SampleRange> all = calibration_batches(
      *data, sampled, wanted_samples(request.options, *data, context), micro_batch(sampled));
  const int64_t samples = sample_count(all);
  const MicroBatches batches(*data, all, *context.group);
  const ObservedValues values = request.options.observed_values;
  const SweepPlan plan = plan_sweeps(graph, values, probes);
  if (context.checkpoint_every > 0) {
    const ProcessGroup& group = *context.group;
    const std::filesystem::path path =
        context.output_dir / "profile_statistics" /
        fmt::format("progress_{}_of_{}.safetensors", group.rank() + 1, group.size());
    const ProfileProgress progress(
        path, fmt::format("network {:016x}, data {:016x}, {} samples, {}, worker {} of {}",
                          network_fingerprint(graph), data->fingerprint(), samples, enum_name(values),
                          group.rank(), group.size()));
    run_share(graph, batches, plan, values, probes, &progress, context);
    merge_over_workers(request, probes, context);
    progress.remove();
  } else {
    run_share(graph, batches, plan, values, probes, nullptr, context);
    merge_over_workers(request, probes, context);
  }
  for (const auto& [copy, original] : plan.copies) {
    Collector same(request.activation_statistics, context.where);
    same.merge(original->collector);
    copy->collector = std::move(same);
  }
  return samples;
}

/// An operand that was asked for but has no value is an error, or, where that is allowed, left out with a
/// warning.
void drop_uncovered(const Graph& graph, bool allow, std::vector<Probe>& probes, const PassContext& context) {
  std::vector<std::string> uncovered;
  std::erase_if(probes, [&](const Probe& probe) {
    if (!probe.collector.empty()) return false;
    uncovered.push_back(fmt::format("{}.{}", graph.nodes()[probe.node].name, probe.operand));
    return true;
  });
  if (uncovered.empty()) return;
  const std::string message =
      fmt::format("{}: no value reached {}", context.where, fmt::join(uncovered, ", "));
  if (!allow) fail("{} (allow_uncovered = true leaves them out)", message);
  context.warn(message + ": they have no statistics");
}

/// Says where a result is not exact.
void report_error_bound(const Table& result, const std::string& name) {
  const Value* bound = result.find("relative_error");
  if (bound == nullptr) return;
  log_debug("{}: more values than exact_values, so values have a relative error of at most {}", name,
            value_text(*bound));
}

void store_results(Graph& graph, const std::vector<Probe>& probes, const PassContext& context) {
  for (const Probe& probe : probes) {
    Node& node = graph.nodes()[probe.node];
    Table& statistics = node.statistics[probe.operand];
    for (const std::string& name : probe.collector.names()) {
      try {
        statistics[name] = probe.collector.result(name);
        report_error_bound(*statistics[name].get_if<Table>(),
                           fmt::format("{}.{}.{}", node.name, probe.operand, name));
      } catch (const Error& error) {
        fail("{}: node \"{}\", operand \"{}\": {}", context.where, node.name, probe.operand, error.what());
      }
    }
  }
}

void report_samples(int64_t samples, const ProfileOptions& options, const PassContext& context) {
  context.report(fmt::format("profile_statistics: {} samples profiled ({} asked for{})\n", samples,
                             options.num_samples,
                             options.exact_num_samples ? "" : ", whole batches are taken"));
  context.warn_of_few_samples(samples, options.num_samples);
}

/// Also of its quantizers, as weight_probes names them.
const Tensor& parameter_of(const Node& node, const std::string& name) {
  const auto all = node.all_parameters();
  return std::ranges::find(all, name, &std::pair<std::string, ParameterRef>::first)->second->tensor;
}

void run_profile(Graph& graph, const ProfileRequest& request, PassContext& context) {
  std::vector<Probe> weights = weight_probes(graph, request, context);
  for (Probe& probe : weights) {
    const Node& node = graph.nodes()[probe.node];
    Tensor parameter = parameter_of(node, probe.operand);
    if (request.options.observed_values == ObservedValues::kAfterQuantization) {
      parameter = quantized_operand(node, probe.operand, parameter, context.where);
    }
    Shape one_sample = parameter.shape();
    one_sample.insert(one_sample.begin(), 1);
    probe.collector.update(parameter.reshaped(one_sample));
  }
  std::vector<Probe> activations = activation_probes(graph, request, context);
  if (!activations.empty()) {
    const int64_t samples = run_activations(graph, request, activations, context);
    report_samples(samples, request.options, context);
  }
  for (std::vector<Probe>* probes : {&activations, &weights}) {
    drop_uncovered(graph, request.options.allow_uncovered, *probes, context);
    store_results(graph, *probes, context);
  }
}

}  // namespace

PassInfo profile_statistics_pass() {
  return make_pass("profile_statistics", PassKind::kAnalysis, "statistics of weights and activations",
                   run_profile);
}

}  // namespace detent
