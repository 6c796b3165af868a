#include "detent/passes/staged_runs/staged_run.h"

#include <algorithm>

#include "detent/core/error.h"
#include "detent/core/progress.h"

namespace detent {
namespace {

constexpr int64_t kMicroBatch = 64;
constexpr int64_t kMiB = int64_t{1} << 20;
/// Values that every part computes again (GraphCut) wait for its layer alone, under a name that no node has.
constexpr char kRecomputed[] = "input of the layer";

}  // namespace

CalibrationBatches::CalibrationBatches(const Graph& graph, const CalibrationInputOptions& options,
                                       const PassContext& context)
    : data_(context.open_calibration()) {
  const int64_t samples = std::min(options.num_samples, data_->size());
  if (samples == 0) fail("{}: there are no samples to calibrate with", context.where);
  context.warn_of_few_samples(samples, options.num_samples);
  batches_ = calibration_batches(*data_, graph, samples, kMicroBatch);
}

int64_t CalibrationBatches::count() const { return std::ssize(batches_); }

std::vector<Tensor> CalibrationBatches::inputs(int64_t index) const {
  const SampleRange& range = batches_[static_cast<size_t>(index)];
  return data_->inputs(range.begin, range.end);
}

Tensor quantized_operand(const Node& node, std::string_view operand, const Tensor& value,
                         const std::string& where) {
  const Quantizer* quantizer = node.find_quantizer(operand);
  if (quantizer == nullptr) return value;
  try {
    return fake_quantize(*quantizer, value);
  } catch (const Error& error) {
    fail("{}: node \"{}\", operand \"{}\": {}", where, node.name, operand, error.what());
  }
}

StagedRun::StagedRun(const Graph& graph, const CalibrationInputOptions& options, PassContext& context)
    : graph_(graph),
      context_(context),
      cut_(graph),
      values_(options.memory_budget * kMiB, context.output_dir) {
  const std::vector<std::string> names = graph.input_names();
  const CalibrationBatches batches(graph, options, context);
  Progress progress("loading samples, micro-batches", batches.count(), {.shown = context.group->is_first()});
  for (; batches_ < batches.count(); ++batches_) {
    const std::vector<Tensor> inputs = batches.inputs(batches_);
    for (size_t i = 0; i < names.size(); ++i) {
      values_.put(names[i], batches_,
                  quantized_operand(graph.node(names[i]), "data_out_0", inputs[i], context.where));
    }
    progress.update(batches_ + 1);
  }
}

void StagedRun::compute(const std::vector<NodeInput>& captured) {
  const Graph part = cut_.part([&](const std::string& name) { return values_.contains(name); }, captured);
  const std::vector<std::string> inputs = part.input_names();
  const std::unique_ptr<const Program> program = context_.executor().compile(part);
  auto observation = Observation::of_none(ObservedValues::kBeforeQuantization);
  for (size_t i = 0; i < captured.size(); ++i)
    observation.operands->emplace(cut_.capture_name(i), "data_in_0");
  for (int64_t batch = 0; batch < batches_; ++batch) {
    std::vector<Tensor> tensors;
    for (const std::string& name : inputs) tensors.push_back(values_.get(name, batch));
    observation.see = [&](const Node& node, std::string_view /*operand*/, const Tensor& value) {
      for (size_t i = 0; i < captured.size(); ++i) {
        if (node.name != cut_.capture_name(i)) continue;
        const bool is_input = captured[i] == graph_.nodes()[position_].inputs[0];
        values_.put(is_input ? input_name_ : captured[i].node, batch, value);
      }
    };
    program->run(tensors, observation);
  }
}

void StagedRun::inputs_of(size_t index, const std::function<void(const Tensor& input)>& visit) {
  advance_to(index);
  for (int64_t batch = 0; batch < batches_; ++batch) visit(input(batch));
}

Tensor StagedRun::input(int64_t batch) const { return values_.get(input_name_, batch); }

void StagedRun::advance_to(size_t index) {
  DETENT_CHECK(index >= position_ && !graph_.nodes()[index].inputs.empty(), "node {} after node {}", index,
               position_);
  position_ = index;
  std::vector<std::string> wanted = cut_.read_from(index);
  std::vector<NodeInput> missing;
  for (const std::string& name : wanted) {
    if (!values_.contains(name)) missing.push_back(NodeInput::of(name));
  }
  const NodeInput& input = graph_.nodes()[index].inputs[0];
  const bool is_kept = input.result == 0 && std::ranges::find(wanted, input.node) != wanted.end();
  input_name_ = is_kept ? input.node : kRecomputed;
  if (!is_kept) {
    if (values_.contains(kRecomputed)) values_.erase(kRecomputed);
    missing.push_back(input);
    wanted.emplace_back(kRecomputed);
  }
  if (!missing.empty()) compute(missing);
  for (const std::string& name : values_.names()) {
    if (std::ranges::find(wanted, name) == wanted.end()) values_.erase(name);
  }
}

}  // namespace detent
