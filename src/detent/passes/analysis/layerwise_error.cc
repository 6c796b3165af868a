#include "detent/passes/analysis/layerwise_error.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include <fmt/ranges.h>

#include "detent/core/convert.h"
#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/core/progress.h"
#include "detent/files/file.h"
#include "detent/files/json.h"
#include "detent/formats/verbs.h"
#include "detent/graph/node_names.h"
#include "detent/graph/operators.h"
#include "detent/graph/traits.h"
#include "detent/graph/value_sizes.h"
#include "detent/passes/analysis/network_cost.h"
#include "detent/passes/analysis/output_gain.h"
#include "detent/passes/analysis/saturation.h"
#include "detent/passes/analysis/waiting_runs.h"
#include "detent/passes/passes.h"
#include "detent/passes/transform/graph_edits.h"

// A node's result with only this node quantized needs no run of the network: the float network's inputs of
// the node are at hand while it runs, so the node is run once more, by itself, on quantized operands. That
// costs three runs of the network over the samples. What errors do to the network's output, by which nodes
// are ranked, takes runs from each node on (output_gain.h).

namespace detent {
namespace {

/// Results of all quantized nodes of the float network are kept until the quantized one has run, so few
/// samples at a time.
constexpr int64_t kMicroBatch = 8;
constexpr int64_t kKeptBytes = int64_t{24} << 20;
constexpr int64_t kComparedBytes = int64_t{96} << 20;  // values of nodes: enough for their SQNR
constexpr int64_t kFewestCompared = 4;

using Values = std::map<std::string, Tensor, std::less<>>;  // by name

using ReaderClamps = std::map<std::string, std::optional<Clamp>, std::less<>>;

/// How all readers of a node's results clamp them first, if they do: its quantization then clamps likewise.
ReaderClamps clamps_of_readers(const Graph& graph) {
  ReaderClamps clamps;
  for (const Node& reader : graph.nodes()) {
    const Clamp* found = clamp_of(reader);
    const std::optional<Clamp> clamp = found == nullptr ? std::nullopt : std::optional(*found);
    for (const NodeInput& input : reader.inputs) {
      if (input.is_constant()) continue;
      std::optional<Clamp>& common = clamps.try_emplace(input.node, clamp).first->second;
      if (common != clamp) common.reset();
    }
  }
  return clamps;
}

int width_of(const Node& node, const std::string& operand) {
  const QuantSpec* spec = node.find_quantization(operand);
  const auto integers = spec == nullptr ? std::nullopt : integer_codes(spec->format);
  return integers ? integers->width : 0;
}

/// `conv1=8`, `conv1=8/8`, `add=/12`: 8 bits for what has fewer; the codes of a node without weights may have
/// more, for its sums are no products.
std::string more_bits(const Node& node) {
  constexpr int kEnough = 8;
  constexpr int kEnoughWithoutWeights = 12;
  const int weights = width_of(node, "weight");
  int inputs = width_of(node, "data_in_0");
  if (node.find_quantization("data_in_1") != nullptr) inputs = std::min(inputs, width_of(node, "data_in_1"));
  std::string entry;
  if (weights > 0 && weights < kEnough) entry += std::to_string(kEnough);
  if (inputs > 0 && inputs < kEnough) entry += fmt::format("/{}", kEnough);
  const bool wider = weights == 0 && inputs >= kEnough && inputs < kEnoughWithoutWeights;
  if (wider) entry += fmt::format("/{}", kEnoughWithoutWeights);
  return entry.empty() ? "" : fmt::format("{}={}", node.name, entry);
}

/// The node by itself: its inputs are tensors that the graph owns.
Graph single_node_graph(const Node& node, const Values& inputs,
                        const std::optional<Requantization>& requantization) {
  Graph graph(node.name);
  graph.set_requantization(requantization);
  Node copy = node;
  for (size_t i = 0; i < copy.inputs.size(); ++i) {
    if (copy.inputs[i].is_constant()) continue;
    Node input;
    input.name = fmt::format("{}_data_in_{}", node.name, i);
    input.target = input.name;
    input.op = "get_attr";
    input.mase_type = MaseType::kGetAttr;
    input.parameters.emplace_back("value", Parameter{inputs.at(fmt::format("data_in_{}", i)), false});
    copy.inputs[i] = NodeInput::of(input.name);
    graph.add(std::move(input));
  }
  graph.add(std::move(copy));
  Node output;
  output.name = "output";
  output.op = "output";
  output.mase_type = MaseType::kOutput;
  output.inputs = {NodeInput::of(node.name)};
  graph.add(std::move(output));
  return graph;
}

bool is_float(const Tensor& tensor) { return is_floating_point(tensor.dtype()); }

/// Whether runs show all that the node reads: not of indices, whose rows have the error of their weights
/// alone.
bool takes_values(const Node& node, const ValueTypes& types) {
  return std::ranges::all_of(node.inputs, [&](const NodeInput& input) {
    return input.is_constant() || types.at(value_name(input)).dtype == DType::kFloat32;
  });
}

class LayerwiseErrorAnalysis {
 public:
  LayerwiseErrorAnalysis(const Graph& reference, const Graph& quantized, int64_t batches,
                         PassContext& context)
      : reference_(reference),
        quantized_(quantized),
        context_(context),
        in_float_(context.executor().compile(reference)),
        together_(context.executor().compile(quantized)),
        at_once_(runs_at_once(quantized)) {
    const ValueTypes types = infer_shapes(quantized);
    const ReaderClamps clamps = clamps_of_readers(quantized);
    for (const Node& node : quantized.nodes()) {
      if (node.quantization.empty() || node.mase_type == MaseType::kPlaceholder) continue;
      if (role_of(node) == OperatorRole::kConstant || !takes_values(node, types)) continue;
      index_[node.name] = node_errors_.size();
      observed_together_.operands->emplace(node.name, "data_out_0");
      observed_in_float_.operands->emplace(node.name, "data_out_0");
      for (size_t i = 0; i < node.inputs.size(); ++i)
        observed_in_float_.operands->emplace(node.name, fmt::format("data_in_{}", i));
      node_errors_.push_back({.node = node.name,
                              .op = node.op,
                              .more_bits = quantized.requantization() ? more_bits(node) : "",
                              .alone = kMeasures,
                              .together = kMeasures,
                              .weight = weight_distortion(node),
                              .saturated_share = {}});
      saturation_.emplace_back();
      const auto clamp = clamps.find(node.name);
      clamps_.push_back(clamp == clamps.end() ? std::nullopt : clamp->second);
    }
    const Node& output = quantized.nodes().back();
    for (size_t i = 0; i < output.inputs.size(); ++i) {
      outputs_.push_back({.name = source_name_or(output, i, value_name(output.inputs[i]))});
      output_of_.emplace(value_name(output.inputs[i]), i);
    }
    progress_.emplace("layer-wise errors", batches * std::ssize(node_errors_),
                      Progress::Options{.shown = context.group->is_first()});
  }

  /// Without a look at what nodes give.
  void add_outputs(std::span<const Tensor> inputs) {
    samples_ += inputs.front().dim(0);
    const std::vector<Tensor> expected = in_float_->run(inputs);
    const std::vector<Tensor> actual = together_->run(inputs);
    for (size_t i = 0; i < outputs_.size(); ++i) add_output(i, expected[i], actual[i]);
  }

  void add(std::span<const Tensor> inputs) {
    samples_ += inputs.front().dim(0);
    node_samples_ += inputs.front().dim(0);
    Values operands;
    Values results;
    observed_in_float_.see = [&](const Node& node, std::string_view operand, const Tensor& value) {
      if (operand != "data_out_0") {
        operands[std::string(operand)] = value.clone();
        return;
      }
      const size_t index = index_.at(node.name);
      Tensor result = kept_copy(node, compared(index, value), value, results);
      waiting_.push_back({index, std::exchange(operands, {}), result});
      if (waits_enough()) run_waiting();
      results[node.name] = std::move(result);
    };
    const std::vector<Tensor> expected = in_float_->run(inputs, observed_in_float_);
    run_waiting();
    observed_together_.see = [&](const Node& node, std::string_view /*operand*/, const Tensor& value) {
      const size_t index = index_.at(node.name);
      const auto kept = results.find(node.name);
      const Tensor actual = compared(index, value);
      // Sizes may follow from what the network computes, as those of detections and of speech do.
      if (actual.shape() == kept->second.shape()) node_errors_[index].together.update(kept->second, actual);
      results.erase(kept);  // frees memory early
    };
    const std::vector<Tensor> actual = together_->run(inputs, observed_together_);
    for (size_t i = 0; i < outputs_.size(); ++i) add_output(i, expected[i], actual[i]);
  }

  void add_output_gains(const CalibrationSet& data, int64_t samples) {
    std::vector<size_t> order(node_errors_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, {}, [&](size_t i) { return node_errors_[i].alone.sqnr_db(); });
    std::vector<std::string> nodes;
    for (const size_t i : order) nodes.push_back(node_errors_[i].node);
    const OutputSqnr sqnr = measure_output_sqnr(
        {reference_, quantized_, *in_float_, *together_, context_.executor()}, nodes, data, samples);
    if (const auto measured = measured_output(reference_)) output_sqnr_db_ = outputs_[*measured].sqnr_db();
    measured_output_ = sqnr.output;
    gain_samples_ = sqnr.samples;
    for (size_t i = 0; i < sqnr.with_float_node.size(); ++i)
      node_errors_[order[i]].output_gain = sqnr.gain(i);
  }

  /// The errors of the outputs alone.
  LayerwiseErrors finish_outputs() {
    LayerwiseErrors errors{
        .measured_output = "", .samples = samples_, .outputs = std::move(outputs_), .nodes = {}};
    if (const auto measured = measured_output(reference_)) {
      errors.output_sqnr_db = errors.outputs[*measured].sqnr_db();
      errors.measured_output = errors.outputs[*measured].name;
    }
    return errors;
  }

  LayerwiseErrors finish() {
    for (size_t i = 0; i < node_errors_.size(); ++i) node_errors_[i].saturated_share = saturation_[i].share();
    std::ranges::stable_sort(node_errors_, std::less<>(), [](const NodeError& errors) {
      return std::pair(-errors.output_gain.value_or(-HUGE_VAL), errors.alone.sqnr_db());
    });
    return {output_sqnr_db_,     measured_output_,       samples_, node_samples_, gain_samples_,
            std::move(outputs_), std::move(node_errors_)};
  }

 private:
  /// A node that is to be run by itself.
  struct NodeAlone {
    size_t index;
    Values operands;  // in float
    Tensor expected;
  };

  void add_output(size_t index, const Tensor& expected, const Tensor& actual) {
    OutputError& errors = outputs_[index];
    if (expected.shape() != actual.shape()) {  // of detections, say
      errors.elements += expected.numel();
    } else if (is_float(expected)) {
      errors.is_float = true;
      errors.signal += compared_signal(reference_, index, expected);
      errors.noise += compared_distance(reference_, index, expected, actual);
      errors.error.update(compared_tensor(reference_, index, expected),
                          compared_tensor(reference_, index, actual));
    } else {
      errors.elements += expected.numel();
      errors.equal += equal_elements(expected, actual);
    }
  }

  /// The compared part of a node's result.
  Tensor compared(size_t index, const Tensor& value) const {
    const auto output = output_of_.find(node_errors_[index].node);
    if (output != output_of_.end() && is_float(value))
      return compared_tensor(reference_, output->second, value);
    return clamped(value, clamps_[index]);
  }

  /// Shares the memory of what the node before gave after its clamp, where this node is that clamp.
  static Tensor kept_copy(const Node& node, Tensor result, const Tensor& value, const Values& results) {
    const auto before = node.inputs.empty() ? results.end() : results.find(node.inputs[0].node);
    if (before != results.end() && std::ranges::equal(before->second.bytes(), result.bytes()) &&
        before->second.shape() == result.shape() && before->second.dtype() == result.dtype())
      return before->second;
    const bool is_borrowed = result.bytes().data() == value.bytes().data();
    return is_borrowed ? result.clone() : result;
  }

  std::optional<Distortion> weight_distortion(const Node& node) const {
    const Quantizer* quantizer = node.find_quantizer("weight");
    if (quantizer == nullptr) return std::nullopt;
    Distortion distortion = kMeasures;
    distortion.update(reference_.node(node.name).find_parameter("weight")->tensor,
                      fake_quantize(*quantizer, node.find_parameter("weight")->tensor));
    return distortion;
  }

  /// As many nodes as there are threads, unless their operands take much memory.
  bool waits_enough() const {
    constexpr size_t kBytes = size_t{2} << 20;
    size_t bytes = 0;
    for (const NodeAlone& alone : waiting_)
      for (const auto& [operand, value] : alone.operands) bytes += value.byte_size();
    return bytes > kBytes || std::ssize(waiting_) >= at_once_;
  }

  void run_waiting() {
    run_at_once(std::ssize(waiting_), [&](size_t i) { add_alone(waiting_[i]); });
    nodes_done_ += std::ssize(waiting_);
    if (!waiting_.empty()) progress_->update(nodes_done_, node_errors_[waiting_.back().index].node);
    waiting_.clear();
  }

  /// Several nodes may be under way.
  void add_alone(const NodeAlone& alone_node) {
    const auto& [index, operands, expected] = alone_node;
    const Node& node = quantized_.node(node_errors_[index].node);
    for (const auto& [operand, value] : operands) {
      if (const std::optional<QuantSpec> rounding = node.rounding(operand))
        saturation_[index].add(*rounding, value);
    }
    const Graph alone = single_node_graph(node, operands, quantized_.requantization());
    const auto program = context_.executor().compile_like(alone, {quantized_, *together_});
    node_errors_[index].alone.update(expected, compared(index, program->run({}).at(0)));
  }

  inline static const Distortion kMeasures{Distortion::Values::kIgnored};

  const Graph& reference_;
  const Graph& quantized_;
  PassContext& context_;
  std::unique_ptr<const Program> in_float_;
  std::unique_ptr<const Program> together_;
  const int64_t at_once_;  // nodes that run alone
  std::map<std::string, size_t, std::less<>> index_;
  Observation observed_in_float_ = Observation::of_none();
  Observation observed_together_ = Observation::of_none();
  std::vector<NodeError> node_errors_;
  std::vector<OutputError> outputs_;
  std::map<std::string, size_t, std::less<>> output_of_;  // by the name of the value
  double output_sqnr_db_ = 0;
  std::string measured_output_;
  int64_t samples_ = 0;
  int64_t node_samples_ = 0;
  int64_t gain_samples_ = 0;
  std::vector<Saturation> saturation_;
  std::vector<std::optional<Clamp>> clamps_;
  std::vector<NodeAlone> waiting_;
  std::optional<Progress> progress_;
  int64_t nodes_done_ = 0;
};

std::string number(double value, int digits) { return fmt::format("{:.{}f}", value, digits); }

struct LayerwiseErrorOptions {
  int64_t num_samples = 64;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("num_samples", self.num_samples, "calibration samples", Between{1, 1e9});
  }
};

/// Bytes of the results of quantized nodes for a sample.
double kept_bytes(const Graph& quantized, NamedSizes sizes) {
  sizes[kBatchName] = 1;
  const ValueTypes values = infer_shapes(quantized, sizes);
  double bytes = 0;
  for (const Node& node : quantized.nodes()) {
    const Operand& result = values.at(value_name(node.name));
    if (!node.quantization.empty() && result.is_tensor() && !result.is_open())
      bytes += static_cast<double>(sizeof(float)) * static_cast<double>(element_count(result.shape));
  }
  return bytes;
}

struct ComparedBatches {
  std::vector<SampleRange> batches;
  int64_t compared;  // samples whose nodes are compared too
};

ComparedBatches compared_batches(const Graph& reference, const Graph& quantized, int64_t samples,
                                 const CalibrationSet& data) {
  constexpr double kPasses = 4;           // in float, quantized, each node alone
  constexpr double kMostProducts = 3e10;  // some seconds of a core
  const NamedSizes sizes = sample_sizes(data, reference);
  const int64_t count = affordable_samples(std::min(samples, data.size()),
                                           kPasses * multiply_adds(reference, sizes), kMostProducts);
  const int64_t most = std::min({kMicroBatch, samples_within(reference, kActivationBytes, sizes),
                                 affordable_samples(kMicroBatch, kept_bytes(quantized, sizes), kKeptBytes)});
  const int64_t compared =
      std::max(kFewestCompared, affordable_samples(count, kept_bytes(quantized, sizes), kComparedBytes));
  return {calibration_batches(data, reference, count, most), compared};
}

void run_layerwise_error_analysis(Graph& graph, const LayerwiseErrorOptions& options, PassContext& context) {
  const auto errors =
      analyze_layerwise_error(without_quantization(graph), graph, options.num_samples, context);
  report_layerwise_errors(errors, context.output_dir / "layerwise_error_analysis", context,
                          output_sqnr_text(errors) + "\n");
}

}  // namespace

LayerwiseErrors analyze_layerwise_error(const Graph& reference, const Graph& quantized, int64_t samples,
                                        PassContext& context) {
  const std::unique_ptr<CalibrationSet> data = context.open_calibration();
  const auto [batches, compared] = compared_batches(reference, quantized, samples, *data);
  const auto is_rest = [last = compared](const SampleRange& batch) { return batch.begin >= last; };
  const auto rest = std::ranges::find_if(batches, is_rest);
  LayerwiseErrorAnalysis analysis(reference, quantized, rest - batches.begin(), context);
  for (auto batch = batches.begin(); batch != batches.end(); ++batch) {
    const std::vector<Tensor> inputs = data->inputs(batch->begin, batch->end);
    batch < rest ? analysis.add(inputs) : analysis.add_outputs(inputs);
  }
  analysis.add_output_gains(*data, samples);
  return analysis.finish();
}

LayerwiseErrors analyze_output_errors(const Graph& reference, const Graph& quantized, int64_t samples,
                                      PassContext& context) {
  const std::unique_ptr<CalibrationSet> data = context.open_calibration();
  LayerwiseErrorAnalysis analysis(reference, quantized, 0, context);
  for (const SampleRange& batch : compared_batches(reference, quantized, samples, *data).batches)
    analysis.add_outputs(data->inputs(batch.begin, batch.end));
  return analysis.finish_outputs();
}

/// Table that fits the columns of a terminal; files hold the cosines too.
TextTable printed_table(const LayerwiseErrors& errors) {
  TextTable table({"node", "op", "output gain", "SQNR alone", "SQNR together", "SQNR weight", "saturated %"});
  for (const NodeError& node : errors.nodes) {
    table.add_row({node.node, node.op, node.output_gain ? number(*node.output_gain, 2) : "",
                   number(node.alone.sqnr_db(), 2), number(node.together.sqnr_db(), 2),
                   node.weight ? number(node.weight->sqnr_db(), 2) : "",
                   node.saturated_share ? number(100 * *node.saturated_share, 3) : ""});
  }
  return table;
}

TextTable complete_table(const LayerwiseErrors& errors) {
  TextTable table({"node", "op", "output gain", "SQNR alone", "cosine alone", "SQNR together",
                   "cosine together", "SQNR weight", "saturated %"});
  for (const NodeError& node : errors.nodes) {
    table.add_row({node.node, node.op, node.output_gain ? number(*node.output_gain, 2) : "",
                   number(node.alone.sqnr_db(), 2), number(node.alone.cosine(), 5),
                   number(node.together.sqnr_db(), 2), number(node.together.cosine(), 5),
                   node.weight ? number(node.weight->sqnr_db(), 2) : "",
                   node.saturated_share ? number(100 * *node.saturated_share, 3) : ""});
  }
  return table;
}

TextTable outputs_table(const LayerwiseErrors& errors) {
  TextTable table({"output", "SQNR", "cosine", "largest error", "equal %"});
  for (const OutputError& output : errors.outputs) {
    const double share =
        100 * static_cast<double>(output.equal) / static_cast<double>(std::max<int64_t>(output.elements, 1));
    table.add_row({output.name, output.is_float ? number(output.sqnr_db(), 2) : "",
                   output.is_float ? number(output.error.cosine(), 5) : "",
                   output.is_float ? fmt::format("{:.4g}", output.error.max_error()) : "",
                   output.elements > 0 ? number(share, 2) : ""});
  }
  return table;
}

Value layerwise_errors_value(const LayerwiseErrors& errors) {
  const auto table_of = [](const Distortion& distortion) {
    return Table{{"sqnr_db", distortion.sqnr_db()},
                 {"cosine", distortion.cosine()},
                 {"mse", distortion.mean_squared_error()},
                 {"max_error", distortion.max_error()}};
  };
  List nodes;
  for (const NodeError& node : errors.nodes) {
    Table entry{{"node", node.node},
                {"op", node.op},
                {"alone", table_of(node.alone)},
                {"together", table_of(node.together)}};
    if (node.output_gain) entry["output_gain_db"] = *node.output_gain;
    if (node.weight) entry["weight"] = table_of(*node.weight);
    if (node.saturated_share) entry["saturated_share"] = *node.saturated_share;
    nodes.push_back(std::move(entry));
  }
  return nodes;
}

std::string output_sqnr_text(const LayerwiseErrors& errors) {
  if (errors.measured_output.empty()) return "";
  return fmt::format("the {} have an SQNR of {:.1f} dB", errors.measured_output, errors.output_sqnr_db);
}

namespace {

/// Text of the column "output gain".
std::string gain_text(const LayerwiseErrors& errors) {
  if (errors.measured_output.empty()) return "; no output is of floats";
  const auto tried =
      std::ranges::count_if(errors.nodes, [](const NodeError& n) { return n.output_gain.has_value(); });
  return fmt::format(
      "; output gain:\nwhat the SQNR of the {} would win with this node in float, tried for\n"
      "{} of {} nodes on {} samples",
      errors.measured_output, tried, errors.nodes.size(), errors.gain_samples);
}

}  // namespace

void report_layerwise_errors(const LayerwiseErrors& errors, const std::filesystem::path& folder,
                             const PassContext& context, const std::string& conclusion) {
  context.report(
      fmt::format("layer-wise error analysis on {} samples, worst first; SQNR in dB{}\n", errors.node_samples,
                  gain_text(errors)) +
      printed_table(errors).to_text() + conclusion +
      fmt::format(
          "\noutputs of the quantized network against float{}{}:\n{}\n",
          errors.samples == errors.node_samples ? "" : fmt::format(", {} samples", errors.samples),
          errors.measured_output == "logits" ? " (SQNR of\nlogits less their mean over the classes)" : "",
          outputs_table(errors).to_text()));
  if (!context.group->is_first()) return;
  write_file(context.to_write(folder / "layerwise_error.csv"), complete_table(errors).to_csv());
  write_file(context.to_write(folder / "quantization_outputs.csv"), outputs_table(errors).to_csv());
  write_json(context.to_write(folder / "layerwise_error.json"), layerwise_errors_value(errors));
}

PassInfo layerwise_error_analysis_pass() {
  PassInfo pass = make_pass("layerwise_error_analysis", PassKind::kAnalysis,
                            "SQNR of each node's result, quantized alone and with all others",
                            run_layerwise_error_analysis);
  pass.former_name = "account_quantization";
  return pass;
}

}  // namespace detent
