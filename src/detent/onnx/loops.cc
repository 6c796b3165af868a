#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>

#include "detent/core/error.h"
#include "detent/onnx/import_steps.h"
#include "detent/onnx/importer.h"
#include "detent/onnx/node_import.h"

// Loops are written out: the nodes of a body stand in the graph once for each iteration.

namespace detent {
namespace {

constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();
/// Iterations of a loop whose end only a computed condition says: a known one among what it joins may be met.
constexpr int64_t kMostWithoutBound = 1000;
constexpr int64_t kFewIterations = 8;

ImportedValue constant_value(Tensor tensor) {
  ImportedValue value;
  value.constant = std::move(tensor);
  return value;
}

ImportedValue condition_value(bool condition) {
  Tensor result(DType::kBool, {});
  result.values<bool>()[0] = condition;
  return constant_value(std::move(result));
}

/// Value of a condition; nothing where the network computes it.
std::optional<bool> known_condition(const ImportedValue& condition) {
  if (condition.sequence) fail("the condition is a sequence");
  if (!condition.constant) return std::nullopt;
  if (condition.constant->dtype() != DType::kBool || condition.constant->numel() != 1)
    fail("a condition of {} elements, expected one bool", condition.constant->numel());
  return condition.constant->values<bool>()[0];
}

}  // namespace

int loop_carried(const onnx::NodeProto& node, const onnx::GraphProto& body) {
  const int carried = std::max(node.input_size() - 2, 0);
  if (body.input_size() != carried + 2 || body.output_size() < carried + 1)
    fail("a body of {} inputs and {} outputs for {} carried values", body.input_size(), body.output_size(),
         carried);
  if (node.output_size() >= body.output_size())
    fail("{} outputs, and a body of {}", node.output_size(), body.output_size());
  return carried;
}

ScanForm scan_form(const NodeImport& import, const onnx::GraphProto& body) {
  constexpr int64_t kFirstWithoutBatch = 9;
  if (import.opset() < kFirstWithoutBatch) import.refuse("Scan before opset 9");
  const auto inputs = static_cast<int64_t>(import.input_count());
  const int64_t scanned = import.integer("num_scan_inputs", 0);
  ScanForm form{.carried = inputs - scanned};
  const int64_t results = body.output_size() - form.carried;
  if (scanned < 1 || form.carried < 0 || body.input_size() != inputs || results < 0)
    fail("num_scan_inputs is {} for {} inputs and a body of {} inputs and {} outputs", scanned, inputs,
         body.input_size(), body.output_size());
  const auto numbers = [&](const char* name, int64_t count) {
    std::vector<int64_t> given = import.integers(name, std::vector<int64_t>(static_cast<size_t>(count), 0));
    if (std::ssize(given) != count)
      fail("attribute \"{}\": got {} numbers, expected {}", name, given.size(), count);
    return given;
  };
  form.axes = numbers("scan_input_axes", scanned);
  form.reversed = numbers("scan_input_directions", scanned);
  form.result_axes = numbers("scan_output_axes", results);
  form.result_reversed = numbers("scan_output_directions", results);
  for (size_t i = 0; i < form.axes.size(); ++i) {
    const auto size = import.size(static_cast<size_t>(form.carried) + i, form.axes[i]);
    if (size && form.length && *size != *form.length)
      fail("inputs of {} and of {} elements to scan", *form.length, *size);
    form.length = i == 0 || form.length ? size : std::nullopt;
  }
  return form;
}

namespace {

/// Whether the condition follows from anything known that a later iteration may change: its number, or a
/// value that it gets.
bool may_become_known(const onnx::GraphProto& body, const std::vector<const onnx::NodeProto*>& steps,
                      const std::vector<ImportedValue*>& running) {
  std::set<std::string> names = {body.output(0).name()};
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    const auto& outputs = (*step)->output();
    if (std::ranges::any_of(outputs, [&](const auto& output) { return names.contains(output); }))
      collect_reads(**step, names);
  }
  if (names.contains(body.input(0).name())) return true;
  for (size_t k = 0; k < running.size(); ++k) {
    if (running[k]->constant && names.contains(body.input(static_cast<int>(k) + 2).name())) return true;
  }
  return false;
}

/// Throws Error where a node does not join the results of so many iterations: such a loop is kept.
void expect_joinable(size_t iterations) {
  const size_t most = find_operator("cat").max_inputs;
  if (iterations > most) fail("results of {} iterations to be joined, expected at most {}", iterations, most);
}

}  // namespace

/// Values that one iteration leaves to the next.
struct OnnxImporter::LoopState {
  ImportedValue* condition;
  std::vector<ImportedValue*> carried = {};
  /// Values that the next iteration reads if there is one. A counter is so known in it, though not after the
  /// loop where the network computes when that ends.
  std::vector<ImportedValue*> running = {};
  std::vector<std::vector<ImportedValue*>> collected = {};  // by result, of each iteration
};

void OnnxImporter::convert_loop(const onnx::NodeProto& node, ImportScope& scope) {
  const bool is_scan = node.op_type() == "Scan";
  const size_t first = graph_.nodes().size();
  const auto before = std::tuple(written_out_, knowable_, computable_);
  const OnnxLoops* const kept = trial_.kept_loops;
  if (kept == nullptr || !kept->contains(&node)) {
    try {
      return is_scan ? unroll_scan(node, scope) : unroll_loop(node, scope);
    } catch (const Error&) {
      unwritten_loops_.insert(&node);
      if (kept == nullptr) throw;
    }
  }
  remove_since(first);
  std::tie(written_out_, knowable_, computable_) = before;
  is_scan ? keep_scan(node, scope) : keep_loop(node, scope);
}

void OnnxImporter::unroll_loop(const onnx::NodeProto& node, ImportScope& scope) {
  const onnx::GraphProto& body = subgraph(node, "body");
  const int carried = loop_carried(node, body);
  const NodeImport import(*this, node, opset(node.domain()));
  const std::optional<int64_t> most = import.has_input(0) ? import.integer(size_t{0}) : kUnbounded;
  has_unknown_counts_ = has_unknown_counts_ || !most;
  if (!most)
    import.refuse(
        "the number of iterations is not known before the network runs (where it follows from a size of an "
        "input, `detent export MODEL FIXED.onnx --shape NAME=...` writes a model that has it)");
  LoopState state{.condition =
                      import.has_input(1) ? &find(node.input(1), scope) : &own(condition_value(true))};
  for (int k = 0; k < carried; ++k) state.carried.push_back(&find(node.input(k + 2), scope));
  state.running = state.carried;
  state.collected.resize(static_cast<size_t>(body.output_size() - 1 - carried));
  ImportScope shared = scope_of_body(node, body, scope);
  const std::string prefix = shared.prefix;
  const std::vector<const onnx::NodeProto*> steps = in_execution_order(body);
  for (int64_t i = 0; i < *most; ++i) {
    const std::optional<bool> runs = known_condition(*state.condition);
    if (runs == false) break;
    const bool has_no_bound =
        !runs && *most == kUnbounded &&
        (i == kMostWithoutBound || (i == kFewIterations && !may_become_known(body, steps, state.running)));
    has_unknown_counts_ = has_unknown_counts_ || has_no_bound;
    if (has_no_bound)
      import.refuse(fmt::format(
          "the number of iterations follows from what the network computes, and has no bound below {}",
          kMostWithoutBound));
    shared.prefix = fmt::format("{}{}_", prefix, i);
    run_iteration(node, steps, i, shared, state);
  }
  for (size_t k = 0; k < static_cast<size_t>(node.output_size()); ++k) {
    const std::string& name = node.output(static_cast<int>(k));
    if (name.empty()) continue;
    const bool is_carried = k < state.carried.size();
    scope.values[name] =
        is_carried ? state.carried[k] : &stacked(node, state.collected[k - state.carried.size()], 0);
  }
}

void OnnxImporter::run_iteration(const onnx::NodeProto& node,
                                 const std::vector<const onnx::NodeProto*>& steps, int64_t iteration,
                                 ImportScope& shared, LoopState& state) {
  const onnx::GraphProto& body = subgraph(node, "body");
  // Where the condition follows from what the network computes, values stay what they were once it fails.
  ImportedValue* const condition = known_condition(*state.condition) ? nullptr : state.condition;
  if (condition != nullptr && !state.collected.empty()) {
    advises_sizes_ = true;
    fail(
        "the sizes of results follow from a condition that the network computes, which is not supported "
        "(where "
        "that follows from a size of an input, --shape gives it; Python: shapes)");
  }
  ImportScope inner{.outer = &shared, .values = {}, .prefix = shared.prefix};
  inner.values[body.input(0).name()] = &own(constant_value(Tensor::from<int64_t>({}, {iteration})));
  inner.values[body.input(1).name()] = &own(condition_value(true));
  for (size_t k = 0; k < state.running.size(); ++k)
    inner.values[body.input(static_cast<int>(k) + 2).name()] = state.running[k];
  convert_body(steps, inner);
  NodeImport import(*this, node, opset(node.domain()));
  NodeInput holds;
  if (condition != nullptr) holds = scalar_condition(import, operand(*condition, node.op_type()));
  int output = 1;
  for (size_t k = 0; k < state.carried.size(); ++k) {
    ImportedValue*& carried = state.carried[k];
    ImportedValue& next = find(body.output(output++).name(), inner);
    carried = condition == nullptr ? &next : &chosen(node, holds, next, *carried);
    state.running[k] = next.constant ? &next : carried;
  }
  for (std::vector<ImportedValue*>& parts : state.collected)
    parts.push_back(&find(body.output(output++).name(), inner));
  ImportedValue& next = find(body.output(0).name(), inner);
  const std::optional<bool> known = known_condition(next);
  if (condition == nullptr || known == false) {
    state.condition = &next;
  } else if (!known) {
    const NodeInput also = scalar_condition(import, operand(next, node.op_type()));
    state.condition = &own_result(import.add("logical_and", {holds, also}), next);
  }
}

void OnnxImporter::unroll_scan(const onnx::NodeProto& node, ImportScope& scope) {
  const onnx::GraphProto& body = subgraph(node, "body");
  const NodeImport import(*this, node, opset(node.domain()));
  const ScanForm form = scan_form(import, body);
  has_unknown_counts_ = has_unknown_counts_ || !form.length;
  if (!form.length)
    import.refuse(
        "the number of iterations, a size of an input, is open (`detent export MODEL FIXED.onnx --shape "
        "NAME=...` writes a model that has it)");
  if (!form.result_axes.empty()) expect_joinable(static_cast<size_t>(*form.length));
  const auto carried = static_cast<int>(form.carried);
  std::vector<ImportedValue*> states;
  for (int k = 0; k < carried; ++k) states.push_back(&find(node.input(k), scope));
  std::vector<std::vector<ImportedValue*>> parts(form.result_axes.size());
  ImportScope shared = scope_of_body(node, body, scope);
  const std::vector<const onnx::NodeProto*> steps = in_execution_order(body);
  for (int64_t i = 0; i < *form.length; ++i) {
    ImportScope inner{.outer = &shared, .values = {}, .prefix = fmt::format("{}{}_", shared.prefix, i)};
    for (int k = 0; k < carried; ++k) inner.values[body.input(k).name()] = states[static_cast<size_t>(k)];
    for (size_t s = 0; s < form.axes.size(); ++s) {
      const int k = carried + static_cast<int>(s);
      const int64_t place = form.reversed[s] != 0 ? *form.length - 1 - i : i;
      inner.values[body.input(k).name()] = &part_of(node, find(node.input(k), scope), form.axes[s], place);
    }
    convert_body(steps, inner);
    for (int k = 0; k < body.output_size(); ++k) {
      ImportedValue& value = find(body.output(k).name(), inner);
      if (k < carried)
        states[static_cast<size_t>(k)] = &value;
      else
        parts[static_cast<size_t>(k - carried)].push_back(&value);
    }
  }
  for (int k = 0; k < std::min(node.output_size(), body.output_size()); ++k) {
    if (node.output(k).empty()) continue;
    const auto s = static_cast<size_t>(k - carried);
    if (k >= carried && form.result_reversed[s] != 0) std::ranges::reverse(parts[s]);
    scope.values[node.output(k)] =
        k < carried ? states[static_cast<size_t>(k)] : &stacked(node, parts[s], form.result_axes[s]);
  }
}

void OnnxImporter::map_sequence(const onnx::NodeProto& node, ImportScope& scope) {
  const onnx::GraphProto& body = subgraph(node, "body");
  if (body.input_size() != node.input_size() || body.output_size() < node.output_size())
    fail("a body of {} inputs and {} outputs", body.input_size(), body.output_size());
  const ImportedValue& first = find(node.input(0), scope);
  if (!first.sequence) fail("input 0 is no sequence");
  std::vector<std::vector<ImportedValue*>> results(static_cast<size_t>(node.output_size()));
  ImportScope shared = scope_of_body(node, body, scope);
  const std::vector<const onnx::NodeProto*> steps = in_execution_order(body);
  for (size_t i = 0; i < first.sequence->size(); ++i) {
    ImportScope inner{.outer = &shared, .values = {}, .prefix = fmt::format("{}{}_", shared.prefix, i)};
    for (int k = 0; k < node.input_size(); ++k) {
      ImportedValue& value = find(node.input(k), scope);
      if (value.sequence && value.sequence->size() != first.sequence->size())
        fail("sequences of {} and of {} tensors", first.sequence->size(), value.sequence->size());
      inner.values[body.input(k).name()] = value.sequence ? value.sequence->at(i) : &value;
    }
    convert_body(steps, inner);
    for (size_t k = 0; k < results.size(); ++k)
      results[k].push_back(&find(body.output(static_cast<int>(k)).name(), inner));
  }
  for (size_t k = 0; k < results.size(); ++k) {
    ImportedValue value;
    value.sequence = std::move(results[k]);
    scope.values[node.output(static_cast<int>(k))] = &own(std::move(value));
  }
}

ImportedValue& OnnxImporter::stacked(const onnx::NodeProto& node, const std::vector<ImportedValue*>& parts,
                                     int64_t axis) {
  if (parts.empty()) {
    advises_sizes_ = true;
    fail(
        "no iteration gives the elements of a result (where their number follows from a size of an input, "
        "--shape gives it; Python: shapes)");
  }
  expect_joinable(parts.size());
  NodeImport import(*this, node, opset(node.domain()));
  std::vector<NodeInput> inputs;
  for (ImportedValue* const part : parts) {
    if (part->sequence) fail("iterations give sequences as results to be joined");
    inputs.push_back(import.add("unsqueeze", {operand(*part, node.op_type()), NodeImport::list_of({axis})}));
  }
  NodeInput result = inputs.size() == 1 ? inputs.front() : import.add("cat", inputs, {{"dim", axis}});
  return own_result(std::move(result), *parts.front());
}

ImportedValue& OnnxImporter::part_of(const onnx::NodeProto& node, ImportedValue& value, int64_t axis,
                                     int64_t place) {
  NodeImport import(*this, node, opset(node.domain()));
  return own_result(import.add("select", {operand(value, node.op_type())}, {{"dim", axis}, {"index", place}}),
                    value);
}

}  // namespace detent
