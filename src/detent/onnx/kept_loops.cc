#include "detent/onnx/kept_loops.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "detent/core/error.h"
#include "detent/graph/loop.h"
#include "detent/onnx/import_steps.h"
#include "detent/onnx/node_import.h"

// Loops that cannot be written out become nodes with a body (graph/loop.h), which an importer of its own
// brings in. What the body reads of the graph around is captured: constants become its own, other values
// inputs. A size of a carried value that an iteration changes is open; that may change other sizes, so the
// body is brought in anew until none changes. Where an iteration changes a rank, it is written out before
// the loop.

namespace detent {
namespace {

bool is_true(const ImportedValue& value) {
  const std::optional<Tensor>& known = value.constant;
  return known && known->dtype() == DType::kBool && known->numel() == 1 && known->values<bool>()[0];
}

TriedTypes scalar_types(DType dtype) {
  const Operand scalar{{}, Value(), dtype};
  return {scalar, scalar};
}

/// Opens the sizes that differ after an iteration, or, where `all`, every one. Returns whether that changes
/// anything.
bool open_sizes(const TriedTypes& after, bool all, TriedTypes& carried) {
  const Shape& shape = carried.first.shape;
  bool changes = false;
  for (size_t d = 0; d < shape.size(); ++d) {
    const bool is_same = after.first.shape[d] == shape[d] && after.second.shape[d] == carried.second.shape[d];
    if (shape[d] == kOpenSize || (is_same && !all)) continue;
    carried.first.shape[d] = carried.second.shape[d] = kOpenSize;
    changes = true;
  }
  return changes;
}

/// Lists that an iteration carries may get one more element.
void expect_growing(const ImportedValue& before, const ImportedValue& after) {
  if (before.rows || before.grows) fail("carries a sequence whose length only a run knows");
  if (!after.sequence || !after.grows || after.sequence->size() > 1)
    fail(
        "carries a sequence, and how often is not known before the network runs: expected iterations that "
        "each add one tensor to it at the end");
}

/// The axis along which a ConcatFromSequence joins the value, if one does.
std::optional<int64_t> axis_of_joining(const onnx::GraphProto& graph, const std::string& value) {
  std::optional<int64_t> axis;
  for (const onnx::NodeProto& node : graph.node()) {
    const bool joins =
        node.op_type() == "ConcatFromSequence" && node.input_size() > 0 && node.input(0) == value;
    bool is_new = false;
    std::optional<int64_t> own;
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g() && !axis) axis = axis_of_joining(attribute.g(), value);
      if (attribute.name() == "axis") own = attribute.i();
      if (attribute.name() == "new_axis") is_new = attribute.i() != 0;
    }
    if (joins && !is_new) axis = own;
  }
  return axis;
}

/// Elements of a list that may have other sizes along `axis` in each iteration, joined; nothing where they do
/// not, or where a list of none would have a shape that is not known.
std::optional<TriedTypes> joined_types(TriedTypes element, int64_t axis) {
  Shape& shape = element.first.shape;
  if (axis < 0 || axis >= std::ssize(shape)) return std::nullopt;
  for (size_t d = 0; d < shape.size(); ++d) {
    const bool is_known = shape[d] != kOpenSize && shape[d] == element.second.shape[d];
    if (is_known == (static_cast<int64_t>(d) == axis)) return std::nullopt;
  }
  if (shape[static_cast<size_t>(axis)] != kOpenSize) return std::nullopt;
  element.second.shape = shape;
  element.first.elements.reset();
  element.second.elements.reset();
  return element;
}

/// The input without dimensions, or the number that it is.
NodeInput number_of_iterations(NodeImport& import) {
  if (!import.has_input(0)) return NodeInput::absent();
  const std::optional<int64_t> known = import.integer(size_t{0});
  if (!known) return import.input(0);
  return *known == std::numeric_limits<int64_t>::max() ? NodeInput::absent() : NodeImport::integer_of(*known);
}

NodeInput first_condition(NodeImport& import) {
  const bool always = !import.has_input(1) || import.number(1).value_or(0) != 0;
  return always ? NodeInput::absent() : import.input(1);
}

/// The element of an axis that an iteration takes.
NodeInput scanned_element(NodeImport& import, const NodeInput& from, int64_t axis, bool is_reversed,
                          NodeInput iteration) {
  if (is_reversed) {
    const NodeInput size = import.add("squeeze", {import.size_of(from, axis), NodeImport::list_of({0})});
    const NodeInput last = import.add("sub", {size, NodeImport::integer_of(1)});
    iteration = import.add("sub", {last, std::move(iteration)});
  }
  return import.add("gather", {from, std::move(iteration)}, {{"dim", axis}});
}

/// A result whose rows are those of the iterations, as a Scan gives it.
NodeInput joined_elements(NodeImport& import, NodeInput rows, int64_t axis, bool is_reversed) {
  if (is_reversed) {
    constexpr int64_t kBeforeFirst = std::numeric_limits<int64_t>::min();
    rows = import.add("dynamic_slice", {rows, NodeImport::list_of({-1}), NodeImport::list_of({kBeforeFirst}),
                                        NodeImport::list_of({0}), NodeImport::list_of({-1})});
  }
  return with_first_dim_at(import, std::move(rows), axis);
}

}  // namespace

ImportedValue true_value() {
  ImportedValue value;
  value.constant = Tensor(DType::kBool, {});
  value.constant->values<bool>()[0] = true;
  return value;
}

bool are_alike(const TriedTypes& a, const TriedTypes& b) {
  return a.first.dtype == b.first.dtype && a.first.shape.size() == b.first.shape.size();
}

NodeInput with_first_dim_at(NodeImport& import, NodeInput rows, int64_t axis) {
  const auto rank = std::ssize(import.type_of(rows).shape);
  const int64_t place = axis < 0 ? axis + rank : axis;
  if (place < 0 || place >= rank) fail("axis {} of a result of {} dimensions", axis, rank);
  if (place == 0) return rows;
  List dims;
  for (int64_t d = 1; d < rank; ++d) dims.emplace_back(d);
  dims.insert(dims.begin() + place, Value(int64_t{0}));
  return import.add("permute", {rows}, {{"dims", std::move(dims)}});
}

/// Iterations that are written out before the loop: a carried value gets another type or rank in them.
struct OnnxImporter::FirstIterations {
  int64_t count = 0;
  NodeInput condition = NodeInput::absent();  // of the run, that they take place
  std::vector<std::vector<ImportedValue*>> collected = {};
};

/// The results of the node that a loop becomes.
struct OnnxImporter::LoopResults {
  const std::vector<size_t>& lists;               // given as rows
  const std::vector<const ImportedValue*>& like;  // their types
  size_t own_results;                             // of the model
  const Iteration& iteration;
};

OnnxImporter::OnnxImporter(OnnxImporter& around, ImportScope& scope)
    : OnnxImporter(around.file_, around.options_, around.trial_) {
  graph_.set_name("body");
  written_out_ = around.written_out_;
  knowable_ = around.knowable_;
  computable_ = around.computable_;
  batch_symbol_ = around.batch_symbol_;
  first_sizes_ = around.first_sizes_;
  second_sizes_ = around.second_sizes_;
  around_ = &around;
  scope_around_ = &scope;
  scope_ = &outermost_;
  depth_ = around.depth_;
}

OnnxImporter::~OnnxImporter() {
  if (around_ == nullptr) return;
  around_->written_out_ = written_out_;
  around_->knowable_ = knowable_;
  around_->computable_ = computable_;
  around_->constants_sought_ += constants_sought_;
  around_->chooses_branches_ |= chooses_branches_;
  around_->has_hidden_sizes_ |= has_hidden_sizes_;
  note_sizes(noted_sizes_, around_->noted_sizes_);
  around_->advises_sizes_ |= advises_sizes_;
}

void OnnxImporter::remove_since(size_t position) {
  const auto is_constant = [&](const std::string& name) {
    const Node* const node = graph_.find(name);
    return node != nullptr && role_of(*node) == OperatorRole::kConstant;
  };
  // A body has captured values for inputs, which later nodes find.
  const auto is_input = [](const Node& node) { return role_of(node) == OperatorRole::kInput; };
  const Node* const first = graph_.nodes().data() + position;
  graph_.erase_if([&](const Node& node) {
    const bool rounds_constant = roundings_.contains(node.name) && is_constant(node.inputs[0].node);
    return &node >= first && !is_constant(node.name) && !is_input(node) && !rounds_constant;
  });
  std::erase_if(roundings_, [&](const std::string& name) { return graph_.find(name) == nullptr; });
  other_sizes_ = {};
}

NodeInput OnnxImporter::add_body_input(const std::string& wanted, TriedTypes types) {
  const std::string name = unique_name(identifier(wanted));
  TensorType type{types.first.dtype, {}};
  for (size_t d = 0; d < types.first.shape.size(); ++d) {
    int64_t& first = types.first.shape[d];
    int64_t& second = types.second.shape[d];
    if (second == kOpenSize) first = kOpenSize;
    if (first == kOpenSize) second = kOpenSize;
    if (first == second && first != kOpenSize) {
      type.shape.emplace_back(first);
      continue;
    }
    type.shape.emplace_back(fmt::format("{}_{}", name, d), first);
    if (first == kOpenSize) continue;
    first_sizes_[type.shape.back().symbol] = first;
    second_sizes_[type.shape.back().symbol] = second;
  }
  graph_.add_input(name, std::move(type));
  types_[name] = std::move(types);
  return NodeInput::of(name);
}

ImportedValue& OnnxImporter::captured(ImportedValue& given) {
  const auto known = std::ranges::find(captured_, &given, &decltype(captured_)::value_type::first);
  if (known != captured_.end()) return *known->second;
  ImportedValue value;
  value.rounding = given.rounding;
  value.is_initializer = given.is_initializer;
  value.float_type = given.float_type;
  value.narrow_type = given.narrow_type;
  if (given.sequence) {
    if (given.joined_axis || given.grows) fail("reads a sequence whose length only a run knows");
    value.sequence.emplace();
    for (ImportedValue* const element : *given.sequence) value.sequence->push_back(&captured(*element));
    if (given.rows) value.rows = add_body_input(value_name(*given.rows), around_->types(*given.rows));
  } else if (given.constant) {
    value.constant = given.constant;
  } else {
    const std::string name = value_name(*given.source);
    value.source = add_body_input(name, around_->types(*given.source));
  }
  ImportedValue& result = own(std::move(value));
  captured_.emplace_back(&given, &result);
  return result;
}

void OnnxImporter::convert_iteration(const KeptLoop& loop, const CarriedValues& carried,
                                     Iteration& iteration) {
  OnnxImporter& inner = iteration.inner;
  const NodeInput number = inner.add_body_input("iteration", scalar_types(DType::kInt64));
  inner.add_body_input("condition", scalar_types(DType::kBool));
  for (size_t k = 0; k < loop.carried.size(); ++k) {
    ImportedValue& before = *loop.carried[k];
    if (!before.sequence && !carried.are_tensors[k]) {
      iteration.carried.push_back(&inner.captured(before));
      continue;
    }
    ImportedValue value;
    value.float_type = before.float_type;
    value.narrow_type = before.narrow_type;
    if (carried.has_tensor(k)) {
      (before.sequence ? value.rows : value.source) = inner.add_body_input(loop.names[k], carried.types[k]);
    }
    if (before.sequence) {
      value.sequence.emplace();
      value.grows = true;
      value.joined_axis = carried.joined_along[k];
    }
    iteration.carried.push_back(&inner.own(std::move(value)));
  }
  inner.add_initializers(loop.body, inner.outermost_);
  inner.count_readers(loop.body);
  iteration.results = loop.convert(inner, number, iteration.carried);
}

bool OnnxImporter::begins_to_join(const onnx::NodeProto& node, size_t k, const Iteration& iteration,
                                  CarriedValues& carried) const {
  const std::vector<ImportedValue*>& added = *iteration.results[1 + k]->sequence;
  const auto output = static_cast<int>(k);
  if (carried.joined_along[k] || added.empty() || output >= node.output_size()) return false;
  std::optional<int64_t> axis = axis_of_joining(file_.model().graph(), node.output(output));
  if (!axis) return false;
  const TriedTypes element = iteration.inner.types_of(*added.front());
  if (*axis < 0) *axis += std::ssize(element.first.shape);
  const std::optional<TriedTypes> types = joined_types(element, *axis);
  if (!types) return false;
  carried.types[k] = *types;
  carried.joined_along[k] = axis;
  return true;
}

std::optional<std::vector<ImportedValue*>> OnnxImporter::kept_results(const onnx::NodeProto& node,
                                                                      ImportScope& scope,
                                                                      const KeptLoop& loop) {
  constexpr int kMostRounds = 4;
  CarriedValues carried;
  carried.joined_along.resize(loop.carried.size());
  for (const ImportedValue* const value : loop.carried) {
    if (value->constant) note_sizes(value->constant->shape(), noted_sizes_);
    carried.are_tensors.push_back(!value->sequence);
    carried.types.push_back(value->sequence ? TriedTypes() : types_of(*value));
    carried.types.back().first.elements.reset();
    carried.types.back().second.elements.reset();
  }
  for (int round = 0;; ++round) {
    Iteration iteration{OnnxImporter(*this, scope)};
    convert_iteration(loop, carried, iteration);
    bool changes = false;
    for (size_t k = 0; k < loop.carried.size(); ++k) {
      if (loop.carried[k]->sequence) {
        expect_growing(*loop.carried[k], *iteration.results[1 + k]);
        const bool begins = begins_to_join(node, k, iteration, carried);
        changes = changes || begins;
      }
      if (!carried.are_tensors[k]) continue;
      const ImportedValue& after = *iteration.results[1 + k];
      if (after.sequence) fail("an iteration gives a sequence for a tensor that it takes");
      const bool is_kept = &after == iteration.carried[k];
      const TriedTypes& types = iteration.inner.types_of(after);
      if (!is_kept && !are_alike(types, carried.types[k])) return std::nullopt;
      const bool opens = !is_kept && open_sizes(types, round == kMostRounds, carried.types[k]);
      carried.are_tensors[k] = !is_kept;
      changes = changes || is_kept || opens;
    }
    if (!changes) return add_loop(node, loop, carried, iteration);
  }
}

NodeInput OnnxImporter::next_joined(const onnx::NodeProto& node, size_t k, const CarriedValues& carried,
                                    Iteration& iteration) {
  const std::vector<ImportedValue*>& added = *iteration.results[1 + k]->sequence;
  const NodeInput before = *iteration.carried[k]->rows;
  if (added.empty()) return before;
  NodeImport step(iteration.inner, node, opset(node.domain()));
  return step.add("cat", {before, iteration.inner.operand(*added.front(), "given")},
                  {{"dim", *carried.joined_along[k]}});
}

ImportedValue& OnnxImporter::nothing_joined(size_t k, const CarriedValues& carried) {
  const Operand& type = carried.types[k].first;
  Shape shape = type.shape;
  std::ranges::replace(shape, kOpenSize, 0);
  ImportedValue value;
  value.constant = Tensor(type.dtype, std::move(shape));
  return own(std::move(value));
}

std::vector<ImportedValue*> OnnxImporter::add_loop(const onnx::NodeProto& node, const KeptLoop& loop,
                                                   const CarriedValues& carried, Iteration& iteration) {
  OnnxImporter& inner = iteration.inner;
  const bool always_holds = is_true(*iteration.results[0]);
  if (loop.most.is_absent() && always_holds)
    fail("nothing ends the loop: it has no number of iterations, and its condition always holds");
  const size_t count = loop.carried.size();
  std::vector<ImportedValue*> collected(iteration.results.begin() + 1 + static_cast<int64_t>(count),
                                        iteration.results.end());
  const size_t own_results = collected.size();
  std::vector<size_t> lists;  // to which an iteration adds an element
  for (size_t k = 0; k < count; ++k) {
    if (!loop.carried[k]->sequence || carried.joined_along[k] || iteration.results[1 + k]->sequence->empty())
      continue;
    lists.push_back(k);
    collected.push_back(iteration.results[1 + k]->sequence->front());
  }
  Node output{.name = "output", .op = "output", .mase_type = MaseType::kOutput};
  const auto give = [&](ImportedValue& value) {
    if (value.sequence) fail("iterations give sequences as results to be joined");
    output.inputs.push_back(inner.operand(value, "given"));
  };
  Node result{
      .name = unique_name(scope_->prefix + identifier(node.name().empty() ? node.output(0) : node.name())),
      .op = "loop",
      .inputs = {loop.most, loop.condition}};
  if (always_holds) {
    output.inputs.push_back(NodeInput::of(inner.graph_.input_names()[1]));  // as it is given
  } else {
    give(*iteration.results[0]);
  }
  std::vector<const ImportedValue*> like;  // the results, by type
  for (size_t k = 0; k < count; ++k) {
    if (!carried.has_tensor(k)) continue;
    if (carried.are_tensors[k]) give(*iteration.results[1 + k]);
    if (!carried.are_tensors[k]) output.inputs.push_back(next_joined(node, k, carried, iteration));
    like.push_back(loop.carried[k]);
    result.inputs.push_back(
        operand(carried.are_tensors[k] ? *loop.carried[k] : nothing_joined(k, carried), node.op_type()));
  }
  result.attributes = {{"carried", std::ssize(like)}};
  for (ImportedValue* const value : collected) give(*value);
  like.insert(like.end(), collected.begin(), collected.end());
  if (like.empty()) return loop.carried;
  inner.graph_.add(std::move(output));
  for (const auto& [there, here] : inner.captured_) {
    if (here->rows) result.inputs.push_back(*there->rows);
    if (!here->constant && !here->sequence) result.inputs.push_back(*there->source);
  }
  result.body = std::make_shared<const Graph>(inner.finish());
  return results_of_loop(add(std::move(result)).node, loop, carried, {lists, like, own_results, iteration});
}

std::vector<ImportedValue*> OnnxImporter::results_of_loop(const std::string& name, const KeptLoop& loop,
                                                          const CarriedValues& carried,
                                                          const LoopResults& given) {
  size_t next = 0;
  std::vector<ImportedValue*> results = loop.carried;
  const auto next_result = [&]() -> ImportedValue* {
    const size_t at = next++;
    return &own_result(NodeInput::of(name, at), *given.like[at]);
  };
  const auto next_list = [&](size_t k) {
    ImportedValue list = *loop.carried[k];
    const std::vector<ImportedValue*>& added = *given.iteration.results[1 + k]->sequence;
    if (!added.empty()) list.float_type = added.front()->float_type;
    list.rows = NodeInput::of(name, next++);
    list.joined_axis = carried.joined_along[k];
    return &own(std::move(list));
  };
  for (size_t k = 0; k < results.size(); ++k) {
    if (!carried.has_tensor(k)) continue;
    results[k] = carried.are_tensors[k] ? next_result() : next_list(k);
  }
  for (size_t i = 0; i < given.own_results; ++i) results.push_back(next_result());
  for (const size_t k : given.lists) results[k] = next_list(k);
  return results;
}

void OnnxImporter::keep_loop(const onnx::NodeProto& node, ImportScope& scope) {
  constexpr int64_t kMostBefore = 3;
  const onnx::GraphProto& body = subgraph(node, "body");
  const int carried = loop_carried(node, body);
  NodeImport import(*this, node, opset(node.domain()));
  KeptLoop loop{.body = body};
  loop.most = number_of_iterations(import);
  loop.condition = first_condition(import);
  for (int k = 0; k < carried; ++k) {
    loop.names.push_back(body.input(k + 2).name());
    loop.carried.push_back(&find(node.input(k + 2), scope));
  }
  const std::vector<const onnx::NodeProto*> steps = in_execution_order(body);
  FirstIterations before;
  before.collected.resize(static_cast<size_t>(body.output_size() - 1 - carried));
  loop.convert = [&](OnnxImporter& inner, NodeInput iteration, const auto& values) {
    if (before.count > 0)
      iteration = NodeImport(inner, node, opset(node.domain()))
                      .add("add", {std::move(iteration), NodeImport::integer_of(before.count)});
    auto& names = inner.outermost_.values;
    names[body.input(0).name()] = &inner.own({.source = std::move(iteration), .constant = std::nullopt});
    names[body.input(1).name()] = &inner.own(true_value());
    for (int k = 0; k < carried; ++k) names[body.input(k + 2).name()] = values[static_cast<size_t>(k)];
    inner.convert_body(steps, inner.outermost_);
    std::vector<ImportedValue*> results;
    for (const auto& output : body.output()) results.push_back(&inner.find(output.name(), inner.outermost_));
    return results;
  };
  std::optional<std::vector<ImportedValue*>> results = kept_results(node, scope, loop);
  while (!results && before.count < kMostBefore) {
    write_out_next(node, steps, scope, loop, before);
    results = kept_results(node, scope, loop);
  }
  if (!results) fail("a carried value changes its type or number of dimensions in every iteration");
  join_first(node, before, *results);
  for (int k = 0; k < node.output_size(); ++k)
    if (!node.output(k).empty()) scope.values[node.output(k)] = (*results)[static_cast<size_t>(k)];
}

void OnnxImporter::write_out_next(const onnx::NodeProto& node,
                                  const std::vector<const onnx::NodeProto*>& steps, ImportScope& scope,
                                  KeptLoop& loop, FirstIterations& before) {
  NodeImport import(*this, node, opset(node.domain()));
  const auto expect = [&](NodeInput holds) {
    before.condition = before.condition.is_absent()
                           ? std::move(holds)
                           : import.add("logical_and", {before.condition, std::move(holds)});
  };
  if (!loop.condition.is_absent()) expect(scalar_condition(import, loop.condition));
  if (const int64_t* const most = loop.most.constant.get_if<int64_t>()) {
    if (*most < 1)
      fail("a carried value changes its type or number of dimensions in each of {} iterations", before.count);
    loop.most = NodeImport::integer_of(*most - 1);
  } else if (!loop.most.is_absent()) {
    expect(scalar_condition(import, import.add("gt", {loop.most, NodeImport::integer_of(0)})));
    loop.most = import.add("sub", {loop.most, NodeImport::integer_of(1)});
  }
  ImportScope inner = scope_of_body(node, loop.body, scope);
  inner.prefix += fmt::format("{}_", before.count);
  ImportedValue number;
  number.constant = Tensor::from<int64_t>({}, {before.count});
  inner.values[loop.body.input(0).name()] = &own(std::move(number));
  inner.values[loop.body.input(1).name()] = &own(true_value());
  for (size_t k = 0; k < loop.carried.size(); ++k) inner.values[loop.names[k]] = loop.carried[k];
  convert_body(steps, inner);
  int output = 0;
  ImportedValue& again = find(loop.body.output(output++).name(), inner);
  loop.condition = is_true(again) ? NodeInput::absent() : operand(again, node.op_type());
  for (ImportedValue*& carried : loop.carried) carried = &find(loop.body.output(output++).name(), inner);
  for (std::vector<ImportedValue*>& parts : before.collected)
    parts.push_back(&find(loop.body.output(output++).name(), inner));
  ++before.count;
}

void OnnxImporter::join_first(const onnx::NodeProto& node, const FirstIterations& before,
                              std::vector<ImportedValue*>& results) {
  if (before.count == 0) return;
  const size_t carried = results.size() - before.collected.size();
  NodeImport import(*this, node, opset(node.domain()));
  for (size_t i = 0; i < before.collected.size(); ++i) {
    ImportedValue*& value = results[carried + i];
    ImportedValue& first = stacked(node, before.collected[i], 0);
    value = &own_result(import.add("cat", {operand(first, node.op_type()), operand(*value, node.op_type())},
                                   {{"dim", int64_t{0}}}),
                        first);
  }
  if (before.condition.is_absent()) return;
  for (ImportedValue*& value : results)
    value = &asserted(node, before.condition, true, *value,
                      fmt::format("the loop ends before iteration {}, in which a carried value gets another "
                                  "type or number of dimensions",
                                  before.count));
}

void OnnxImporter::keep_scan(const onnx::NodeProto& node, ImportScope& scope) {
  const onnx::GraphProto& body = subgraph(node, "body");
  NodeImport import(*this, node, opset(node.domain()));
  const ScanForm form = scan_form(import, body);
  const auto carried = static_cast<int>(form.carried);
  KeptLoop loop{.body = body};
  for (int k = 0; k < carried; ++k) {
    loop.names.push_back(body.input(k).name());
    loop.carried.push_back(&find(node.input(k), scope));
  }
  const NodeInput size = import.size_of(import.input(static_cast<size_t>(carried)), form.axes[0]);
  loop.most = form.length ? NodeImport::integer_of(*form.length)
                          : import.add("squeeze", {size, NodeImport::list_of({0})});
  loop.convert = [&](OnnxImporter& inner, const NodeInput& iteration, const auto& values) {
    NodeImport step(inner, node, opset(node.domain()));
    for (int k = 0; k < carried; ++k)
      inner.outermost_.values[body.input(k).name()] = values[static_cast<size_t>(k)];
    for (size_t s = 0; s < form.axes.size(); ++s) {
      const int k = carried + static_cast<int>(s);
      ImportedValue& from = inner.captured(find(node.input(k), scope));
      const NodeInput element = scanned_element(step, inner.operand(from, node.input(k)), form.axes[s],
                                                form.reversed[s] != 0, iteration);
      inner.outermost_.values[body.input(k).name()] = &inner.own_result(element, from);
    }
    inner.convert_body(in_execution_order(body), inner.outermost_);
    std::vector<ImportedValue*> results = {&inner.own(true_value())};
    for (const auto& output : body.output()) results.push_back(&inner.find(output.name(), inner.outermost_));
    return results;
  };
  const std::optional<std::vector<ImportedValue*>> results = kept_results(node, scope, loop);
  if (!results) fail("a state changes its type or number of dimensions");
  for (int k = 0; k < std::min(node.output_size(), body.output_size()); ++k) {
    if (node.output(k).empty()) continue;
    ImportedValue& value = *(*results)[static_cast<size_t>(k)];
    const auto s = static_cast<size_t>(k - carried);
    scope.values[node.output(k)] =
        k < carried ? &value
                    : &own_result(joined_elements(import, operand(value, node.output(k)), form.result_axes[s],
                                                  form.result_reversed[s] != 0),
                                  value);
  }
}

}  // namespace detent
