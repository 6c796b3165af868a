#include "detent/passes/staged_runs/executor_in_parts.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "detent/core/error.h"
#include "detent/graph/operators.h"
#include "detent/passes/analysis/network_cost.h"

namespace detent {
namespace {

/// Where parts begin, the first one left out, and the end. Of the places where a part is large enough, up to
/// twice that, those count after which the fewest values wait.
std::vector<size_t> ends_of_parts(const Graph& graph, const GraphCut& cut, int64_t part_bytes) {
  std::vector<size_t> ends;
  int64_t bytes = 0;
  size_t best = 0;
  size_t fewest = 0;
  for (size_t i = 0; i + 1 < graph.nodes().size(); ++i) {
    const int64_t more = parameter_bytes(graph.nodes()[i]);
    if (best > 0 && more > 0 && bytes + more > 2 * part_bytes) {
      ends.push_back(best);
      bytes = 0;
      for (size_t k = best; k < i; ++k) bytes += parameter_bytes(graph.nodes()[k]);
      best = 0;
    }
    bytes += more;
    if (bytes < part_bytes) continue;
    const size_t waiting = cut.read_from(i + 1).size();
    if (best == 0 || waiting < fewest) {
      best = i + 1;
      fewest = waiting;
    }
  }
  if (best > 0 && best + 1 < graph.nodes().size()) ends.push_back(best);
  ends.push_back(graph.nodes().size());
  return ends;
}

struct Part {
  size_t begin = 0;  // its nodes in the network; values of others it may compute again
  size_t end = 0;
  Graph graph = {};
  std::vector<std::string> captured = {};  // values that later parts read
  std::vector<std::string> waiting = {};   // all that these read
};

class ProgramInParts final : public Program {
 public:
  ProgramInParts(const Executor& executor, Graph graph, int64_t part_bytes)
      : executor_(executor), graph_(std::move(graph)), cut_(graph_) {
    const std::vector<std::string> inputs = graph_.input_names();
    std::set<std::string> there(inputs.begin(), inputs.end());
    size_t begin = 0;
    for (const size_t end : ends_of_parts(graph_, cut_, part_bytes)) {
      parts_.push_back(part_of(there, begin, end));
      there.insert(parts_.back().captured.begin(), parts_.back().captured.end());
      begin = end;
    }
    programs_.resize(parts_.size());
  }

  /// Whether each part gives something, and computes no large layer of others.
  bool is_cut_well() const {
    constexpr int64_t kLittle = 16;
    const int64_t whole = parameter_bytes(graph_);
    int64_t bytes = 0;
    for (const Part& part : parts_) {
      if (part.graph.nodes().empty()) return false;
      bytes += parameter_bytes(part.graph);
    }
    return parts_.size() > 1 && bytes <= whole + whole / kLittle;
  }

  int64_t most_at_once() const {
    int64_t most = 0;
    for (const Part& part : parts_) most = std::max(most, parameter_bytes(part.graph));
    return most;
  }

  std::vector<Tensor> run(std::span<const Tensor> inputs, const Observation& observation) const override {
    const std::vector<std::string> names = graph_.input_names();
    DETENT_CHECK(inputs.size() == names.size(), "{} inputs for {}", inputs.size(), names.size());
    std::map<std::string, Tensor, std::less<>> values;
    for (size_t i = 0; i < names.size(); ++i) values.emplace(names[i], inputs[i]);
    std::vector<Tensor> outputs;
    for (size_t i = 0; i < parts_.size(); ++i) {
      const Part& part = parts_[i];
      std::vector<Tensor> taken;
      for (const std::string& name : part.graph.input_names()) taken.push_back(values.at(name));
      outputs = program_of(i)->run(taken, observed(part, observation, values));
      std::erase_if(
          values, [&](const auto& entry) { return !std::ranges::binary_search(part.waiting, entry.first); });
    }
    return outputs;
  }

 private:
  Part part_of(const std::set<std::string>& there, size_t begin, size_t end) const {
    Part part{.begin = begin, .end = end};
    std::vector<NodeInput> captured;
    const bool is_last = end == graph_.nodes().size();
    if (!is_last) part.waiting = cut_.read_from(end);
    for (const std::string& name : part.waiting) {
      if (there.contains(name)) continue;
      captured.push_back(NodeInput::of(name));
      part.captured.push_back(name);
    }
    for (const std::string& name : unread_nodes(begin, end)) captured.push_back(NodeInput::of(name));
    if (is_last) captured.push_back(graph_.nodes().back().inputs.front());
    if (captured.empty()) return part;
    part.graph = cut_.part([&](const std::string& name) { return there.contains(name); }, captured);
    return part;
  }

  /// Nodes between these places that no other reads: observers may want what they take.
  std::vector<std::string> unread_nodes(size_t begin, size_t end) const {
    std::vector<std::string> unread;
    for (size_t i = begin; i < end; ++i) {
      const Node& node = graph_.nodes()[i];
      const OperatorRole role = role_of(node);
      const bool is_inner = role != OperatorRole::kInput && role != OperatorRole::kOutput;
      if (is_inner && !cut_.is_read(i)) unread.push_back(node.name);
    }
    return unread;
  }

  /// Shows what the caller wants to see, each value once, and keeps what later parts read.
  Observation observed(const Part& part, const Observation& wanted,
                       std::map<std::string, Tensor, std::less<>>& values) const {
    Observation observation = wanted;
    if (wanted.see == nullptr) observation.operands.emplace();
    std::erase_if(observation.in_bodies, [&](const auto& shown) { return !is_own_node(part, shown.first); });
    std::map<std::string, std::string, std::less<>> captures;
    for (size_t i = 0; i < part.captured.size(); ++i) {
      captures.emplace(cut_.capture_name(i), part.captured[i]);
      if (observation.operands) observation.operands->emplace(cut_.capture_name(i), "data_in_0");
    }
    observation.see = [&part, &wanted, &values, this, captures = std::move(captures)](
                          const Node& node, std::string_view operand, const Tensor& value) {
      if (const auto capture = captures.find(node.name); capture != captures.end()) {
        if (operand == "data_in_0") values[capture->second] = value.clone();
        return;
      }
      if (is_own_node(part, node.name) && wanted.shows(node.name, std::string(operand)))
        wanted.see(node, operand, value);
    };
    return observation;
  }

  bool is_own_node(const Part& part, const std::string& name) const {
    return graph_.find(name) != nullptr && graph_.position(name) >= part.begin &&
           graph_.position(name) < part.end;
  }

  std::shared_ptr<const Program> program_of(size_t index) const {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<const Program> program = programs_[index].lock();
    if (program == nullptr) {
      program = executor_.compile(parts_[index].graph);
      programs_[index] = program;
    }
    return program;
  }

  const Executor& executor_;
  Graph graph_;
  GraphCut cut_;
  std::vector<Part> parts_;
  mutable std::mutex mutex_;
  mutable std::vector<std::weak_ptr<const Program>> programs_;  // those that run
};

/// Whether all that it takes and gives are values between nodes as any others.
bool can_be_cut(const Graph& graph) {
  const std::vector<NodeInput>& outputs = graph.nodes().back().inputs;
  const auto is_rounded = [&](const std::string& input) { return !graph.node(input).quantization.empty(); };
  return outputs.size() == 1 && !outputs[0].is_constant() &&
         std::ranges::none_of(graph.input_names(), is_rounded);
}

/// nullptr where the whole is better.
std::unique_ptr<const ProgramInParts> cut(const Graph& graph, const Executor& executor, int64_t least_bytes,
                                          int64_t part_bytes) {
  if (parameter_bytes(graph) < least_bytes) return nullptr;
  verify(graph);
  if (!can_be_cut(graph)) return nullptr;
  auto program = std::make_unique<const ProgramInParts>(executor, graph, part_bytes);
  return program->is_cut_well() ? std::move(program) : nullptr;
}

}  // namespace

std::unique_ptr<const Program> ExecutorInParts::compile(const Graph& graph) const {
  if (auto program = cut(graph, whole_, least_bytes_, part_bytes_)) return program;
  return whole_.compile(graph);
}

std::unique_ptr<const Program> ExecutorInParts::compile_like(const Graph& graph,
                                                             const CompiledGraph& other) const {
  if (auto program = cut(graph, whole_, least_bytes_, part_bytes_)) return program;
  return whole_.compile_like(graph, other);
}

int64_t ExecutorInParts::most_at_once(const Graph& graph) const {
  const auto program = cut(graph, whole_, least_bytes_, part_bytes_);
  return program == nullptr ? parameter_bytes(graph) : program->most_at_once();
}

}  // namespace detent
