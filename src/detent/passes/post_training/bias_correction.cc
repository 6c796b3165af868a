#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include <fmt/ranges.h>

#include "detent/core/error.h"
#include "detent/core/progress.h"
#include "detent/core/text_table.h"
#include "detent/graph/accumulator.h"
#include "detent/graph/operators.h"
#include "detent/graph/traits.h"
#include "detent/graph/value_sizes.h"
#include "detent/inference/node_form.h"
#include "detent/passes/passes.h"
#include "detent/passes/post_training/operand_ranges.h"
#include "detent/passes/staged_runs/staged_run.h"
#include "detent/passes/transform/graph_edits.h"
#include "detent/reconstruction/output_pairs.h"
#include "detent/statistics/power_sums.h"

// Takes back what quantization shifts the mean of a layer's outputs by (Nagel et al. 2019, arXiv:1906.04721,
// appendix D: empirical bias correction):
//
//     bias of channel c  +=  mean of the float network's output c  -  mean of the quantized network's output
//     c
//
// Means are over samples and positions. Layers are corrected in execution order, each with the
// inputs that it gets from the network with the earlier layers already corrected; its own output is not
// quantized. A layer without a bias gets one.
//
// Where all that reads the output clamps it alike (a relu), most of a channel may be cut off, and its mean
// says little of what is left: there the bias takes the shift with which the clamped outputs are nearest to
// the float network's, in mean squares (output_pairs.h).

namespace detent {
namespace {

/// Adds a sum of float32 values in double, which is a multiple of the smallest of these as they are.
void add_to(ExactSum& exact, double sum, const Node& node) {
  constexpr int kMantissaBits = 53;
  constexpr int kSmallest = 149;
  if (!std::isfinite(sum)) fail("bias_correction: outputs of \"{}\" are NaN or infinite", node.name);
  int exponent = 0;
  const auto units = static_cast<int64_t>(std::ldexp(std::frexp(std::fabs(sum), &exponent), kMantissaBits));
  const int shift = exponent - kMantissaBits + kSmallest;
  const auto whole = static_cast<UInt128>(units);
  exact.add(shift < 0 ? whole >> -shift : whole, static_cast<unsigned>(std::max(shift, 0)), sum < 0);
}

/// Means of each output channel over all samples and positions: sums within a sample in double, those of
/// samples exactly, so that neither their order nor how they are cut into batches shows.
class ChannelMeans {
 public:
  void add(const Node& node, const Tensor& output) {
    const auto axis = static_cast<int64_t>(channel_axis(node, output.shape().size()));
    const int64_t samples = axis == 0 ? 1 : output.dim(0);
    const int64_t inner = element_count({output.shape().begin() + axis + 1, output.shape().end()});
    sums_.resize(static_cast<size_t>(output.dim(axis)));
    count_ += output.numel() / output.dim(axis);
    if (output.numel() == 0) return;
    const auto size = static_cast<size_t>(output.numel() / samples);
    for (int64_t n = 0; n < samples; ++n)
      add_sample(node, output.values<float>().subspan(static_cast<size_t>(n) * size, size),
                 static_cast<size_t>(inner));
  }
  size_t channels() const { return sums_.size(); }
  double mean(size_t channel) const {
    return static_cast<double>(sums_[channel].value()) / static_cast<double>(count_);
  }

 private:
  void add_sample(const Node& node, std::span<const float> values, size_t inner) {
    std::vector<double> sums(sums_.size());
    for (size_t begin = 0; begin < values.size(); begin += inner) {
      double sum = 0;
      for (const float value : values.subspan(begin, inner)) sum += static_cast<double>(value);
      sums[begin / inner % sums.size()] += sum;
    }
    for (size_t c = 0; c < sums.size(); ++c) add_to(sums_[c], sums[c], node);
  }

  std::vector<ExactSum> sums_;
  int64_t count_ = 0;
};

using MeansByNode = std::map<std::string, ChannelMeans, std::less<>>;

bool is_corrected(const Node& node) {
  return is_weighted_sum(node) &&
         (node.find_quantization("weight") != nullptr || node.find_quantization("data_in_0") != nullptr);
}

void check_any_corrected(const Graph& graph, const std::string& where) {
  if (std::ranges::any_of(graph.nodes(), is_corrected)) return;
  fail("{}: no linear layer or convolution is quantized: let the pass quantize go before", where);
}

struct BiasCorrectionOptions : CalibrationInputOptions {
  bool report = true;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    CalibrationInputOptions::fields(self, visit);
    visit("report", self.report, "print the table of nodes");
  }
  void check_graph(const Graph& graph, const EarlierPasses& earlier, const std::string& where) const {
    if (!earlier.quantize) check_any_corrected(graph, where);
  }
};

/// Where no earlier pass of the run chose values of weights, the graph's weights are taken for those of the
/// float network. They are not where such a pass ran before the graph was saved: then rounding does not
/// change them, and what it shifted cannot be told any more.
void warn_of_rounded_weights(const Graph& graph, const PassContext& context) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes()) {
    const Quantizer* quantizer = is_corrected(node) ? node.find_quantizer("weight") : nullptr;
    if (quantizer == nullptr) continue;
    const Tensor& weight = node.find_parameter("weight")->tensor;
    if (fake_quantize(*quantizer, weight).equals(weight)) names.push_back(fmt::format("\"{}\"", node.name));
  }
  if (names.empty()) return;
  context.warn(fmt::format(
      "{}: the weights of {} were rounded before the graph was saved: of these nodes only what the "
      "quantization of activations shifts is corrected; for all of it, let bias_correction run with "
      "the passes that choose the weights (gptq, adaround)",
      context.where, fmt::join(names, ", ")));
}

/// Visits tensors of the same samples in parts: results of some nodes are large, and means do not depend on
/// how samples are cut. Not those of networks that take one number of samples.
void visit_in_parts(const Graph& graph, std::span<const Tensor> inputs,
                    const std::function<void(std::span<const Tensor> part)>& visit) {
  constexpr int64_t kBytes = int64_t{64} << 20;  // of what a node takes and gives
  const auto is_alike = [&](const Tensor& input) {
    return input.rank() > 0 && input.dim(0) == inputs.front().dim(0);
  };
  if (fixed_samples(graph) || !std::ranges::all_of(inputs, is_alike)) return visit(inputs);
  const int64_t samples = inputs.front().dim(0);
  const int64_t most = samples_within(graph, kBytes, sizes_of(graph, inputs));
  for (int64_t begin = 0; begin < samples; begin += most) {
    std::vector<Tensor> part;
    for (const Tensor& input : inputs) part.push_back(input.rows(begin, std::min(samples, begin + most)));
    visit(part);
  }
}

using Clamps = std::map<std::string, Clamp, std::less<>>;

/// By node, what all readers of its output make of it, where that is one clamp.
Clamps clamps_after(const Graph& graph) {
  std::map<std::string, std::optional<Clamp>, std::less<>> common;
  for (const Node& node : graph.nodes()) {
    for (const NodeInput& input : node.inputs) {
      if (input.node.empty()) continue;
      const Clamp* clamp = clamp_of(node);
      const std::optional<Clamp> read = clamp == nullptr ? std::nullopt : std::optional(*clamp);
      const auto [known, is_first] = common.emplace(input.node, read);
      if (!is_first && known->second != read) known->second = std::nullopt;
    }
  }
  Clamps clamps;
  for (const auto& [name, clamp] : common) {
    if (clamp) clamps.emplace(name, *clamp);
  }
  return clamps;
}

/// Throws Error where the float network lacks a layer.
void check_layers_were_there(const Graph& network, const Graph& quantized, const PassContext& context) {
  for (const Node& node : quantized.nodes()) {
    if (!is_corrected(node)) continue;
    const Node* original = network.find(node.name);
    if (original == nullptr || original->op != node.op) {
      fail(
          "{}: node \"{}\" was not there before weights were rounded: let passes that rewrite the network go "
          "before them",
          context.where, node.name);
    }
  }
}

/// For the layers that are corrected, but for those after which there is a clamp.
MeansByNode float_means(const Graph& network, const Graph& quantized, const Clamps& clamps,
                        const BiasCorrectionOptions& options, PassContext& context) {
  MeansByNode means;
  for (const Node& node : quantized.nodes()) {
    if (!is_corrected(node) || clamps.contains(node.name)) continue;
    means[node.name];
  }
  const CalibrationBatches batches(network, options, context);
  const std::unique_ptr<const Program> program = context.executor().compile(network);
  Progress progress("bias_correction, batches in float", batches.count(),
                    {.shown = context.group->is_first()});
  auto observation = Observation::of_none();
  for (const auto& [node, mean] : means) observation.operands->emplace(node, "data_out_0");
  observation.see = [&](const Node& node, std::string_view /*operand*/, const Tensor& value) {
    means.at(node.name).add(node, value);
  };
  for (int64_t batch = 0; batch < batches.count() && !means.empty(); ++batch) {
    visit_in_parts(network, batches.inputs(batch),
                   [&](std::span<const Tensor> part) { program->run(part, observation); });
    progress.update(batch + 1);
  }
  return means;
}

/// The node alone, with its quantization of inputs and parameters. It computes on values, but for what an
/// accumulator makes of sums of codes.
Graph only(const Node& node, const std::optional<Requantization>& requantization, const Shape& input) {
  Graph graph(node.name);
  if (accumulator_of(node)) graph.set_requantization(requantization);
  const std::string& source = node.inputs[0].node;
  graph.add_input(source, input);
  Node copy = node;
  copy.inputs[0] = NodeInput::of(source);
  copy.quantization.erase("data_out_0");
  graph.add(std::move(copy));
  Node output;
  output.name = "output";
  output.op = "output";
  output.mase_type = MaseType::kOutput;
  output.inputs = {NodeInput::of(node.name)};
  graph.add(std::move(output));
  return graph;
}

/// Runs one node on batches that may be of several sizes.
class SingleNode {
 public:
  SingleNode(const Graph& graph, const Node& node, PassContext& context)
      : node_(node), requantization_(graph.requantization()), context_(context) {}

  Tensor run(const Tensor& input) {
    prepare(input);
    return program_->run(std::span(&input, 1)).front();
  }
  void run_in_parts(const Tensor& input, const std::function<void(const Tensor& result)>& visit) {
    prepare(input);
    visit_in_parts(graph_, std::span(&input, 1),
                   [&](std::span<const Tensor> part) { visit(program_->run(part).front()); });
  }

 private:
  void prepare(const Tensor& input) {
    Shape one_sample = input.shape();
    one_sample[0] = 1;
    if (program_ != nullptr && one_sample == compiled_for_) return;
    graph_ = only(node_, requantization_, one_sample);
    program_ = context_.executor().compile(graph_);
    compiled_for_ = one_sample;
  }

  const Node& node_;
  std::optional<Requantization> requantization_;
  PassContext& context_;
  Graph graph_;
  std::unique_ptr<const Program> program_;
  Shape compiled_for_;
};

using Shifts = std::vector<double>;  // of each channel

Shifts mean_shifts(const Graph& graph, size_t index, const ChannelMeans& wanted, StagedRun& run,
                   PassContext& context) {
  const Node& node = graph.nodes()[index];
  ChannelMeans got;
  SingleNode quantized(graph, node, context);
  run.inputs_of(index, [&](const Tensor& input) {
    quantized.run_in_parts(input, [&](const Tensor& result) { got.add(node, result); });
  });
  Shifts shifts;
  for (size_t c = 0; c < wanted.channels(); ++c) shifts.push_back(wanted.mean(c) - got.mean(c));
  return shifts;
}

/// A network and where it is computed to.
struct RunningNetwork {
  const Graph& graph;
  StagedRun& run;
};

Shifts clamped_shifts(const Graph& graph, size_t index, const Clamp& clamp, StagedRun& run,
                      RunningNetwork in_float, PassContext& context) {
  const Node& node = graph.nodes()[index];
  const Node& original = in_float.graph.node(node.name);
  in_float.run.advance_to(static_cast<size_t>(&original - in_float.graph.nodes().data()));
  run.advance_to(index);
  SingleNode quantized(graph, node, context);
  SingleNode exact(in_float.graph, original, context);
  OutputPairs pairs;
  for (int64_t batch = 0; batch < run.batch_count(); ++batch) {
    const Tensor wanted = exact.run(in_float.run.input(batch));
    pairs.add(wanted, quantized.run(run.input(batch)), channel_axis(node, wanted.shape().size()));
  }
  pairs.sort();
  return pairs.shifts(clamp);
}

/// Returns the largest shift, in magnitude.
double correct(Node& node, const Shifts& shifts) {
  const Parameter* bias = node.find_parameter("bias");
  Tensor corrected = bias == nullptr ? Tensor(DType::kFloat32, {std::ssize(shifts)}) : bias->tensor.clone();
  double largest = 0;
  for (size_t c = 0; c < shifts.size(); ++c) {
    float& value = corrected.values<float>()[c];
    value = static_cast<float>(static_cast<double>(value) + shifts[c]);
    largest = std::max(largest, std::fabs(shifts[c]));
  }
  if (bias == nullptr) {
    node.parameters.emplace_back("bias", Parameter{std::move(corrected), true});  // after the weight
  } else {
    node.own_parameter("bias")->tensor = std::move(corrected);
  }
  node.statistics = {};
  return largest;
}

void run_bias_correction(Graph& graph, const BiasCorrectionOptions& options, PassContext& context) {
  if (graph.requantization() && std::ranges::none_of(graph.nodes(), is_corrected)) {
    context.report("bias_correction: no linear layer or convolution is quantized, so no bias to correct\n");
    return;
  }
  check_any_corrected(graph, context.where);
  const Graph network =
      without_quantization(context.float_network == nullptr ? graph : *context.float_network);
  if (context.float_network == nullptr) warn_of_rounded_weights(graph, context);
  check_layers_were_there(network, graph, context);
  const Clamps clamps = clamps_after(graph);
  const MeansByNode wanted = float_means(network, graph, clamps, options, context);
  Graph corrected = graph;
  StagedRun run(corrected, options, context);
  std::optional<StagedRun> in_float;
  if (std::ranges::any_of(graph.nodes(),
                          [&](const Node& node) { return is_corrected(node) && clamps.contains(node.name); }))
    in_float.emplace(network, options, context);
  TextTable table({"node", "bias", "largest shift"});
  std::pair<double, std::string> largest_of_all;
  Progress progress("bias_correction, layers", std::ranges::count_if(graph.nodes(), is_corrected),
                    {.shown = context.group->is_first()});
  for (size_t i = 0; i < corrected.nodes().size(); ++i) {
    Node& node = corrected.nodes()[i];
    if (!is_corrected(node)) continue;
    const char* bias = node.find_parameter("bias") == nullptr ? "new" : "corrected";
    const auto clamp = clamps.find(node.name);
    const double largest =
        correct(node, clamp != clamps.end()
                          ? clamped_shifts(corrected, i, clamp->second, run, {network, *in_float}, context)
                          : mean_shifts(corrected, i, wanted.at(node.name), run, context));
    if (corrected.requantization()) fit_weight_scales(node);
    table.add_row({node.name, bias, fmt::format("{:.4g}", largest)});
    largest_of_all = std::max(largest_of_all, std::pair(largest, node.name));
    progress.update(std::ssize(table.rows()), node.name);
  }
  progress.finish();
  graph = std::move(corrected);
  context.report(fmt::format("bias_correction: the biases of {} nodes, by at most {:.4g} ({})\n",
                             table.rows().size(), largest_of_all.first, largest_of_all.second));
  if (options.report) context.report(table.to_text());
}

}  // namespace

PassInfo bias_correction_pass() {
  return make_pass("bias_correction", PassKind::kTransform,
                   "removes the mean error of each output channel through the bias", run_bias_correction,
                   PassStage::kAfterRounding);
}

}  // namespace detent
