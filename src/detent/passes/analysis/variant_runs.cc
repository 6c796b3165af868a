#include "detent/passes/analysis/variant_runs.h"

#include <algorithm>

#include "detent/core/error.h"
#include "detent/passes/analysis/network_cost.h"
#include "detent/passes/analysis/waiting_runs.h"

namespace detent {

namespace {

/// Bytes of a program of the graph at most: nodes, plan, and all weights.
int64_t program_bytes(const Graph& graph) {
  constexpr int64_t kBytesOfNode = 8192;
  return std::ssize(graph.nodes()) * kBytesOfNode + parameter_bytes(graph);
}

}  // namespace

VariantRuns::VariantRuns(const Graph& base, size_t output) : base_(base), cut_(base), output_(output) {}

void VariantRuns::add(const Variant& variant) {
  const size_t first = variant.first;
  const std::optional<size_t> parent = variant.parent;
  const std::vector<std::string> inputs = base_.input_names();
  const auto is_there = [&](const std::string& name) {
    return cut_.is_read_from(base_.position(name), first) || std::ranges::count(inputs, name) > 0;
  };
  const NodeInput& result = base_.nodes().back().inputs.at(output_);
  Part part{begins_.size(), first, cut_.part_of(variant.graph, is_there, {result}), {}};
  for (const std::string& input : inputs) {
    const Quantizer* quantizer = variant.graph.node(input).find_quantizer("data_out_0");
    if (quantizer != nullptr) part.input_quantizers.emplace(input, *quantizer);
  }
  observed_.emplace(base_.nodes()[first].name, "data_out_0");
  for (const std::string& input : part.graph.input_names()) observed_.emplace(input, "data_out_0");
  DETENT_CHECK(!parent || begins_.at(*parent) < first, "variant {} begins with its parent", part.variant);
  (parent ? of_variants_.at(*parent) : of_base_)[first].push_back(std::move(part));
  of_variants_.emplace_back();
  begins_.push_back(first);
}

std::shared_ptr<const Program> VariantRuns::program_of(const Call& call, const Part& part) const {
  constexpr int64_t kMostBytes = int64_t{32} << 20;
  {
    const std::lock_guard lock(kept_->mutex);
    const auto known = kept_->programs.find(part.variant);
    if (known != kept_->programs.end()) return known->second;
    ++kept_->compiled;
  }
  std::shared_ptr<const Program> program = call.executor.compile_like(part.graph, call.base);
  const int64_t bytes = program_bytes(part.graph);
  const std::lock_guard lock(kept_->mutex);
  if (kept_->bytes + bytes <= kMostBytes && kept_->programs.emplace(part.variant, program).second)
    kept_->bytes += bytes;
  return program;
}

void VariantRuns::run_part(const Call& call, const Part& part, const Values& values) const {
  const std::vector<std::string> input_names = base_.input_names();
  std::vector<Tensor> taken;
  for (const std::string& name : part.graph.input_names()) {
    const auto input = std::ranges::find(input_names, name);
    if (input == input_names.end()) {
      taken.push_back(values.at(name));
      continue;
    }
    const Tensor& given = call.inputs[static_cast<size_t>(input - input_names.begin())];
    const auto quantizer = part.input_quantizers.find(name);
    taken.push_back(quantizer == part.input_quantizers.end() ? given
                                                             : fake_quantize(quantizer->second, given));
  }
  const Parts& branches = of_variants_[part.variant];
  const std::shared_ptr<const Program> program = program_of(call, part);
  if (branches.empty()) {
    call.visit(part.variant, program->run(taken).at(0));
    return;
  }
  Values seen = values;
  const auto observe = [&](const Node& node, std::string_view /*operand*/, const Tensor& value) {
    // Not what it takes or computes again, nor the node that captures its result.
    const bool is_own = base_.find(node.name) != nullptr && base_.position(node.name) >= part.first;
    if (is_own) pass(call, branches, node, value, seen);
  };
  call.visit(part.variant,
             program->run(taken, {observe, ObservedValues::kAfterQuantization, observed_}).at(0));
}

void VariantRuns::pass(const Call& call, const Parts& parts, const Node& node, const Tensor& value,
                       Values& values) const {
  const size_t position = base_.position(node.name);
  if (const auto here = parts.find(position); here != parts.end()) {
    for (const Part& part : here->second) run_part(call, part, values);
  }
  const Quantizer* quantizer = node.find_quantizer("data_out_0");
  values[node.name] = quantizer == nullptr ? value.clone() : fake_quantize(*quantizer, value);
  std::erase_if(values, [&](const auto& entry) {
    return !cut_.is_read_from(base_.position(entry.first), position + 1);
  });
}

Tensor VariantRuns::run(std::span<const Tensor> inputs, const Program& program, const Executor& executor,
                        const std::function<void(size_t variant, const Tensor& output)>& visit) const {
  struct WaitingPart {
    const Part* part;
    Values values;
  };
  const Call call{inputs, {base_, program}, executor, visit};
  const Parts none;
  const int64_t at_once = runs_at_once(base_);
  Values values;
  std::vector<WaitingPart> waiting;
  const auto run_waiting = [&] {
    run_at_once(std::ssize(waiting), [&](size_t i) { run_part(call, *waiting[i].part, waiting[i].values); });
    waiting.clear();
  };
  const auto observe = [&](const Node& node, std::string_view /*operand*/, const Tensor& value) {
    if (const auto here = of_base_.find(base_.position(node.name)); here != of_base_.end()) {
      for (const Part& part : here->second) {
        waiting.push_back({&part, values});
        if (std::ssize(waiting) >= at_once) run_waiting();
      }
    }
    pass(call, none, node, value, values);
  };
  const Tensor result =
      program.run(inputs, {observe, ObservedValues::kAfterQuantization, observed_}).at(output_).clone();
  run_waiting();
  return result;
}

}  // namespace detent
