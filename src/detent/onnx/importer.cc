#include "detent/onnx/importer.h"

#include <fmt/ranges.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "detent/core/error.h"
#include "detent/core/name_pattern.h"
#include "detent/core/text.h"
#include "detent/graph/known_elements.h"
#include "detent/graph/node_names.h"
#include "detent/graph/parameter_keys.h"
#include "detent/graph/traits.h"
#include "detent/onnx/import_steps.h"
#include "detent/onnx/open_sizes.h"
#include "detent/onnx/tensor_data.h"
#include "detent/operators/onnx_import.h"

namespace detent {
namespace {

constexpr size_t kDeepestCall = 64;  // calls of functions and subgraphs within one another
constexpr int kMostInputs = 4096;    // of a node
// How many nodes a file may stand for: a call of a function, or a sum of many inputs, is short.
constexpr size_t kFewNodes = 50'000;
constexpr size_t kBytesOfNode = 100;

/// The name as people give it and files keep it: ONNX files may hold bytes that are no UTF-8, and characters
/// that cannot be typed.
std::string kept_name(const std::string& name) { return printable_line(name); }

std::string node_text(const onnx::NodeProto& node) {
  const std::string name = node.name().empty() && node.output_size() > 0 ? node.output(0) : node.name();
  const std::string op = node.domain().empty() ? node.op_type() : node.domain() + "." + node.op_type();
  return fmt::format("node \"{}\" ({})", name, op);
}

/// Exporters write "?" or "-1" for sizes that have no name, of which no two need be the same.
std::string size_name(const std::string& name) {
  const bool has_letter =
      std::ranges::any_of(name, [](unsigned char c) { return std::isalpha(c) != 0 || c == '_'; });
  return has_letter ? name : "";
}

/// tf2onnx numbers the open sizes of all values: those of the batch have another name in each input.
bool is_numbered(std::string_view size) { return size.starts_with("unk__"); }

TriedTypes constant_types(const Tensor& tensor) {
  const Operand operand{tensor.shape(), Value(), tensor.dtype(), false, tensor};
  return {operand, operand};
}

}  // namespace

std::string identifier(const std::string& name) {
  std::string result;
  for (const char c : name) result += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return result.empty() ? "value" : result;
}

OnnxImporter::OnnxImporter(OnnxModelFile& file, const OnnxImportOptions& options, ImportTrial trial)
    : file_(file),
      options_(options),
      trial_(trial),
      graph_(identifier(file.path().stem().string())),
      most_nodes_(kFewNodes + file.byte_size() / kBytesOfNode),
      given_sizes_(options.sizes) {
  names_.insert("output");
  for (const onnx::FunctionProto& function : file.model().functions()) add_function(function);
}

void OnnxImporter::add_function(const onnx::FunctionProto& function) {
  functions_.try_emplace({function.domain(), function.name(), overload_of(function)}, &function);
  try {
    for (onnx::AttributeProto& attribute : default_attributes(function))
      defaults_[&function].push_back(std::make_shared<const onnx::AttributeProto>(std::move(attribute)));
  } catch (const Error& error) {
    fail("{}: {}", file_.path().string(), error.what());
  }
}

Graph OnnxImporter::run() {
  const onnx::GraphProto& graph = file_.model().graph();
  check_operators();
  count_readers(graph);
  add_initializers(graph, outermost_);
  add_inputs(graph, outermost_);
  convert_all(in_execution_order(graph));
  add_outputs(graph);
  values_.clear();  // what follows takes as much memory again
  types_.clear();
  attribute_tensors_.clear();
  return finish();
}

void OnnxImporter::convert_all(const std::vector<const onnx::NodeProto*>& nodes) {
  constexpr size_t kMostProblems = 10;
  const std::string file = printable(file_.path().string()) + ": ";
  std::vector<std::string> problems;
  std::set<std::string> missing;  // what refused nodes would give, and what others make of it
  for (const onnx::NodeProto* node : nodes) {
    bool reads_missing = false;
    if (!missing.empty()) {
      std::set<std::string> names;
      collect_reads(*node, names);
      reads_missing = std::ranges::any_of(names, [&](const auto& name) { return missing.contains(name); });
    }
    if (!reads_missing) {
      noted_sizes_.clear();
      try {
        convert(*node, outermost_);
        end_reads(*node);
        continue;
      } catch (const RefusedNode& error) {
        problems.push_back(error.reason());
        note_sizes(noted_sizes_, sizes_at_odds_);
        refused_ = problems.size();
        scope_ = nullptr;
        node_ = nullptr;
        depth_ = 0;
      }
    }
    missing.insert(node->output().begin(), node->output().end());
    missing.erase("");
    if (problems.size() == kMostProblems) break;
  }
  if (problems.empty()) return;
  if (problems.size() == 1) throw Error(file + problems[0]);
  fail("{}{}{} nodes are refused:\n  {}", file, problems.size() == kMostProblems ? "at least " : "",
       problems.size(), fmt::join(problems, "\n  "));
}

int64_t OnnxImporter::opset(const std::string& domain) const {
  if (scope_ != nullptr) {
    for (const ImportScope* scope = scope_; scope != nullptr; scope = scope->outer) {
      const auto found = scope->opsets.find(domain == "ai.onnx" ? "" : domain);
      if (found != scope->opsets.end()) return found->second;
    }
  }
  return around_ != nullptr ? around_->opset(domain) : file_.opset(domain);
}

const onnx::FunctionProto* OnnxImporter::function(const onnx::NodeProto& node) const {
  const auto found = functions_.find({node.domain(), node.op_type(), overload_of(node)});
  return found == functions_.end() ? nullptr : found->second;
}

void OnnxImporter::list_unsupported(const onnx::NodeProto& node, size_t depth,
                                    std::vector<std::string>& problems) const {
  if (function(node) != nullptr) return;  // its own nodes are looked at once, with all functions
  if (has_subgraphs(node)) {
    for (const onnx::AttributeProto& branch : node.attribute()) {
      if (depth > kDeepestCall)
        fail("{}: subgraphs lie {} deep within one another", file_.path().string(), depth);
      for (const onnx::NodeProto& inner : branch.g().node()) list_unsupported(inner, depth + 1, problems);
    }
    return;
  }
  if (find_onnx_converter(node.domain(), node.op_type()) != nullptr) return;
  const std::string_view advice = export_advice(node.domain(), node.op_type());
  problems.push_back(fmt::format("{}, opset {}{}{}", node_text(node), opset(node.domain()),
                                 advice.empty() ? "" : ": ", advice));
}

void OnnxImporter::check_operators() const {
  std::vector<std::string> problems;
  for (const onnx::NodeProto& node : file_.model().graph().node()) list_unsupported(node, 0, problems);
  for (const onnx::FunctionProto& function : file_.model().functions()) {
    for (const onnx::NodeProto& node : function.node()) list_unsupported(node, 0, problems);
  }
  if (problems.empty()) return;
  constexpr size_t kMostListed = 50;
  const size_t count = problems.size();
  problems.resize(std::min(count, kMostListed));
  fail("{}: operators of {} node{} are not supported:\n  {}{}", file_.path().string(), count,
       count == 1 ? "" : "s", fmt::join(problems, "\n  "), count > kMostListed ? "\n  ..." : "");
}

ImportedValue& OnnxImporter::own(ImportedValue value) {
  if (value.constant) value.types = constant_types(*value.constant);
  return *values_.emplace_back(std::make_unique<ImportedValue>(std::move(value)));
}

void OnnxImporter::add_initializers(const onnx::GraphProto& graph, ImportScope& scope) {
  // Initializers of a body are the same in each iteration.
  const auto [known, is_new] = initializers_.try_emplace(&graph);
  const auto add = [&, &values = known->second](const onnx::TensorProto& proto, const Tensor& given) {
    ImportedValue& value = own({.source = std::nullopt,
                                .constant = file_.in_float32(given, proto.name()),
                                .is_initializer = true,
                                .float_type = given.dtype(),
                                .narrow_type = find_narrow_type(proto.data_type())});
    let_move(*value.constant);
    values.emplace_back(&proto.name(), &value);
  };
  if (is_new) {
    for (const onnx::TensorProto& tensor : graph.initializer()) add(tensor, file_.tensor(tensor));
    for (const auto& sparse : graph.sparse_initializer()) add(sparse.values(), file_.sparse_tensor(sparse));
  }
  for (const auto& [name, value] : known->second) scope.values[*name] = value;
}

Dimension OnnxImporter::named_dimension(const onnx::ValueInfoProto& input, int index) {
  const auto& dim = input.type().tensor_type().shape().dim(index);
  // Older exporters write 0 or -1 for an open size; a list of no axes has size 0.
  if (index == 0 && trial_.frees_batch && dim.dim_value() == 1) {
    first_sizes_[kBatchName] = trial_.sizes.first_batch();
    second_sizes_[kBatchName] = trial_.sizes.second_batch();
    return kBatchName;
  }
  const bool may_be_empty = input.type().tensor_type().shape().dim_size() == 1;
  if (dim.has_dim_value() && dim.dim_value() >= (may_be_empty ? 0 : 1)) return dim.dim_value();
  std::string symbol = size_name(dim.dim_param());
  if (index == 0 && batch_symbol_ && is_numbered(*batch_symbol_) && is_numbered(symbol))
    symbol = *batch_symbol_;
  const bool is_second = index == 1 && input.type().tensor_type().shape().dim(0).dim_value() > 0;
  has_open_second_sizes_ = has_open_second_sizes_ || (is_second && symbol.empty());
  if (symbol.empty()) {
    const bool is_batch = index == 0 || (is_second && trial_.second_is_batch);
    const std::string batch = index == 0 ? kBatchName : batch_symbol_.value_or(kBatchName);
    symbol = is_batch ? batch : fmt::format("{}_{}", input.name(), index);
  }
  const auto [known, is_new] = symbols_.try_emplace(symbol, identifier(symbol));
  if (is_new && batch_symbol_ == symbol) {
    known->second = kBatchName;
  } else if (is_new && batch_symbol_ && known->second == kBatchName) {
    known->second = fmt::format("{}_", kBatchName);  // the model's own name of another size
  }
  // Exporters may name the batch of each input on its own: these have the same sizes.
  const bool is_batch = index == 0 || known->second == kBatchName;
  first_sizes_.try_emplace(known->second, is_batch ? trial_.sizes.first_batch() : trial_.sizes.first());
  second_sizes_.try_emplace(known->second, is_batch ? trial_.sizes.second_batch() : trial_.sizes.second());
  // An input may have a batch of another one in a later place.
  const bool is_of_batches = first_sizes_.at(known->second) == trial_.sizes.first_batch();
  return {known->second, is_of_batches ? 1 : trial_.sizes.first()};
}

bool OnnxImporter::has_one_size(const std::string& symbol) const {
  return first_sizes_.at(symbol) == second_sizes_.at(symbol);
}

TensorType OnnxImporter::input_type(const onnx::ValueInfoProto& input) {
  const std::string name = kept_name(input.name());
  if (!input.type().has_tensor_type())
    fail("{}: input \"{}\" is no tensor, which is not supported", file_.path().string(), name);
  const auto& proto = input.type().tensor_type();
  TensorType type;
  try {
    if (proto.elem_type() == kOnnxText) {
      fail(
          "tensors of STRING are not supported: export the network without what reads them, and give it the "
          "numbers that this makes of them");
    }
    type.dtype = dtype_of_onnx(proto.elem_type());
  } catch (const Error& error) {
    fail("{}: input \"{}\": {}", file_.path().string(), name, error.what());
  }
  const auto given = options_.shapes.find(name);
  if (!proto.has_shape() && given == options_.shapes.end()) {
    fail(
        "{0}: input \"{1}\" has no shape: `detent export {0} FIXED.onnx --shape {1}=...` writes a model that "
        "has "
        "one, and `detent run --shape` and `detent bench --shape` take it",
        file_.path().string(), name);
  }
  if (static_cast<size_t>(proto.shape().dim_size()) > kMostDims)
    fail("{}: input \"{}\" has {} dimensions, expected at most {}", file_.path().string(), name,
         proto.shape().dim_size(), kMostDims);
  for (int i = 0; i < proto.shape().dim_size(); ++i) {
    type.shape.push_back(named_dimension(input, i));
    const auto fixed = given_sizes_.find(type.shape.back().symbol);
    if (fixed != given_sizes_.end()) type.shape.back() = fixed->second;
    if (type.shape.back().is_named() && has_one_size(type.shape.back().symbol))
      type.shape.back() = first_sizes_.at(type.shape.back().symbol);
  }
  if (given == options_.shapes.end()) {
    for (Dimension& dim : type.shape) {
      const bool is_batch = dim.symbol == kBatchName || (options_.fixes_first && &dim == type.shape.data());
      const bool is_fixed = options_.fixes_open && (options_.fixes_first || !is_batch);
      if (dim.is_named() && is_fixed) dim = first_sizes_.at(dim.symbol);
    }
    return type;
  }
  if (!proto.has_shape()) return {type.dtype, {given->second.begin(), given->second.end()}};
  bool fits = given->second.size() == type.shape.size();
  for (size_t i = 0; fits && i < type.shape.size(); ++i)
    fits = given->second[i] > 0 && (type.shape[i].is_named() || type.shape[i].size == given->second[i]);
  if (!fits) {
    fail("{}: input \"{}\": got the shape {}, expected one that fits {} with sizes above 0",
         file_.path().string(), name, shape_text(given->second), tensor_type_text(type));
  }
  for (size_t i = 0; i < type.shape.size(); ++i) {
    Dimension& dim = type.shape[i];
    if (!dim.is_named() || (dim.symbol == kBatchName && !options_.fixes_first)) continue;
    given_sizes_[dim.symbol] = given->second[i];
    dim = given->second[i];
  }
  return type;
}

void OnnxImporter::add_input(const onnx::ValueInfoProto& input, ImportScope& scope) {
  const TensorType type = input_type(input);
  const std::string name = unique_name(identifier(input.name()));
  graph_.add_input(name, type);
  graph_.nodes().back().source_names = {kept_name(input.name())};
  types_[name] = {{type.concrete(first_sizes_), Value(), type.dtype},
                  {type.concrete(second_sizes_), Value(), type.dtype}};
  NodeInput value = NodeInput::of(name);
  if (is_floating_point(type.dtype) && type.dtype != DType::kFloat32) {
    value = add({.name = unique_name(name + "_float32"),
                 .op = "cast",
                 .inputs = {value},
                 .attributes = {{"dtype", "float32"}}});
  }
  scope.values[input.name()] =
      &own({.source = value,
            .constant = std::nullopt,
            .float_type = type.dtype,
            .narrow_type = find_narrow_type(input.type().tensor_type().elem_type())});
}

void OnnxImporter::find_batch_symbol(const onnx::GraphProto& graph, const ImportScope& scope) {
  if (trial_.frees_batch) batch_symbol_ = "";  // no name
  for (const onnx::ValueInfoProto& input : graph.input()) {
    const auto& shape = input.type().tensor_type().shape();
    const bool is_given = scope.values.contains(input.name());
    if (batch_symbol_ || is_given || shape.dim_size() == 0 || shape.dim(0).dim_value() > 0) continue;
    const std::string name = size_name(shape.dim(0).dim_param());
    batch_symbol_ = name.empty() ? kBatchName : name;
  }
}

void OnnxImporter::add_inputs(const onnx::GraphProto& graph, ImportScope& scope) {
  find_batch_symbol(graph, scope);
  // A size that one input's shape gives holds for all that have a dimension of that name.
  for (const onnx::ValueInfoProto& input : graph.input())
    if (options_.shapes.contains(kept_name(input.name()))) static_cast<void>(input_type(input));
  std::set<std::string_view> seen;
  for (const onnx::ValueInfoProto& input : graph.input()) {
    if (!seen.insert(input.name()).second)
      fail("{}: two inputs are called \"{}\"", file_.path().string(), input.name());
    if (!scope.values.contains(input.name())) add_input(input, scope);
  }
  for (const auto& [name, shape] : options_.shapes) {
    const auto is_it = [&name = name](const auto& input) { return kept_name(input.name()) == name; };
    if (std::ranges::any_of(graph.input(), is_it)) continue;
    std::vector<std::string> known;
    for (const onnx::ValueInfoProto& input : graph.input()) known.push_back(kept_name(input.name()));
    fail("{}: {}", file_.path().string(), unknown_name_message("input", name, known));
  }
}

void OnnxImporter::count_readers(const onnx::GraphProto& graph) {
  for (const onnx::NodeProto& node : graph.node()) {
    for (const std::string& input : node.input()) ++readers_[input];
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) count_readers(attribute.g());
    }
  }
  for (const onnx::ValueInfoProto& output : graph.output()) ++readers_[output.name()];
}

ImportedValue* OnnxImporter::find_any(const std::string& name, const ImportScope& scope) {
  for (const ImportScope* at = &scope; at != nullptr; at = at->outer) {
    if (const auto found = at->values.find(name); found != at->values.end()) return found->second;
    if (at != &outermost_ || around_ == nullptr) continue;
    ImportedValue* const given = around_->find_any(name, *scope_around_);
    return given == nullptr ? nullptr : &captured(*given);
  }
  return nullptr;
}

ImportedValue& OnnxImporter::find(const std::string& name, const ImportScope& scope) {
  if (ImportedValue* const found = find_any(name, scope)) return *found;
  fail("reads \"{}\", which is neither an input nor an initializer, and no earlier node gives it", name);
}

bool OnnxImporter::is_absent(const std::string& name, const ImportScope& scope) const {
  for (const ImportScope* at = &scope; at != nullptr; at = at->outer) {
    if (at->values.contains(name)) return false;
    if (at->absent.contains(name)) return true;
    if (at == &outermost_ && around_ != nullptr) return around_->is_absent(name, *scope_around_);
  }
  return false;
}

const onnx::AttributeProto* OnnxImporter::attribute_of_call(const std::string& name,
                                                            const ImportScope& scope) const {
  for (const ImportScope* at = &scope; at != nullptr; at = at->outer) {
    const auto found = at->attributes.find(name);
    if (found != at->attributes.end()) return static_cast<const onnx::AttributeProto*>(found->second);
    if (at == &outermost_ && around_ != nullptr) return around_->attribute_of_call(name, *scope_around_);
  }
  return nullptr;
}

void OnnxImporter::inherit_float_type(const onnx::NodeProto& node, ImportScope& scope) {
  std::optional<DType> given;
  for (const std::string& name : node.input()) {
    const ImportedValue* const operand = find_any(name, scope);
    const auto type = operand == nullptr ? std::nullopt : operand->float_type;
    if (!given && type && is_floating_point(*type)) given = type;
  }
  for (const std::string& name : node.output()) {
    const auto found = scope.values.find(name);
    if (found != scope.values.end() && !found->second->float_type) found->second->float_type = given;
  }
}

void OnnxImporter::convert(const onnx::NodeProto& node, ImportScope& scope) {
  ImportScope* const scope_before = std::exchange(scope_, &scope);
  const onnx::NodeProto* const node_before = std::exchange(node_, &node);
  const auto leave = [&] {
    --depth_;
    scope_ = scope_before;
    node_ = node_before;
  };
  try {
    if (++depth_ > kDeepestCall) fail("functions or subgraphs lie {} deep within one another", kDeepestCall);
    convert_in_scope(node, scope);
  } catch (const RefusedNode&) {  // within this one
    leave();
    throw;
  } catch (const Error& error) {
    leave();
    throw RefusedNode(printable(file_.path().string()) + ": ",
                      fmt::format("{}: {}", node_text(node), reason_of(error.what())));
  }
  leave();
}

void OnnxImporter::convert_in_scope(const onnx::NodeProto& node, ImportScope& scope) {
  if (node.output_size() == 0) fail("it has no output");
  if (node.input_size() > kMostInputs) fail("{} inputs, expected at most {}", node.input_size(), kMostInputs);
  if (const onnx::FunctionProto* called = function(node)) return call(*called, node, scope);
  if (has_subgraphs(node)) return convert_subgraphs(node, scope);
  const OnnxConverter converter = find_onnx_converter(node.domain(), node.op_type());
  if (converter == nullptr) fail("the operator is not supported");
  if (opset(node.domain()) == 0 && (node.domain().empty() || node.domain() == "ai.onnx"))
    fail("no opset import: the version of the operator is not given");
  if (is_channels_last(node.domain())) return convert_channels_last(node, scope);
  if (convert_as_values(node, scope)) return;
  expect_known_types(node, scope);
  NodeImport import(*this, node, opset(node.domain()));
  converter(import);
  if (node.domain().empty() && import.opset() > kNewestKnownOpset) import.refuse_what_was_not_read();
  inherit_float_type(node, scope);
  inherit_narrow_type(node, scope);
  for (const std::string& output : node.output()) {
    if (!output.empty() && !scope.values.contains(output) &&
        import.wants(static_cast<size_t>(&output - &node.output(0))))
      fail("output \"{}\" is not supported", output);
  }
}

void OnnxImporter::call(const onnx::FunctionProto& function, const onnx::NodeProto& node,
                        ImportScope& scope) {
  ImportScope inner{.outer = nullptr};
  inner.prefix = scope.prefix + identifier(node.name().empty() ? node.op_type() : node.name()) + "_";
  for (const auto& import : function.opset_import())
    inner.opsets[import.domain() == "ai.onnx" ? "" : import.domain()] = import.version();
  if (const auto found = defaults_.find(&function); found != defaults_.end()) {
    for (const auto& attribute : found->second) inner.attributes[attribute->name()] = attribute.get();
  }
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    const std::string& reference = attribute.ref_attr_name();
    const auto* value = reference.empty() ? &attribute : attribute_of_call(reference, scope);
    if (value != nullptr) inner.attributes[attribute.name()] = value;
  }
  if (node.input_size() > function.input_size())
    fail("{} inputs for a function of {}", node.input_size(), function.input_size());
  for (int i = 0; i < function.input_size(); ++i) {
    const std::string name = i < node.input_size() ? node.input(i) : "";
    if (name.empty() || is_absent(name, scope)) {
      inner.absent.insert(function.input(i));
    } else {
      inner.values[function.input(i)] = &find(name, scope);
    }
  }
  written_out_ += static_cast<size_t>(function.node_size());
  if (written_out_ > most_nodes_) fail("calls of functions stand for more than {} nodes", most_nodes_);
  for (const onnx::NodeProto& step : function.node()) convert(step, inner);
  for (int i = 0; i < std::min(node.output_size(), function.output_size()); ++i) {
    if (!node.output(i).empty()) scope.values[node.output(i)] = &find(function.output(i), inner);
  }
}

std::string OnnxImporter::unique_name(const std::string& wanted) {
  std::string name = wanted;
  while (!names_.insert(name).second) name = fmt::format("{}_{}", wanted, ++suffixes_[wanted]);
  return name;
}

const TriedTypes& OnnxImporter::types(const NodeInput& input) const {
  const auto found = types_.find(value_name(input));
  if (found == types_.end()) fail("there is no output {}", input.result);
  return found->second;
}

void OnnxImporter::note_sizes(const Shape& shape, std::vector<int64_t>& sizes) const {
  constexpr size_t kMost = 8;
  constexpr int64_t kMostSize = 1 << 24;  // lists have the end of int64 for positions
  const OpenSizes& tried = trial_.sizes;
  const std::set<int64_t> chosen = {1, tried.first(), tried.second(), tried.first_batch(),
                                    tried.second_batch()};
  for (const int64_t size : shape) {
    const bool is_new = std::ranges::find(sizes, size) == sizes.end();
    const bool is_size = size > 1 && size <= kMostSize;
    if (is_size && is_new && sizes.size() < kMost && !chosen.contains(size)) sizes.push_back(size);
  }
}

/// Sizes of constants, which a trace may have fixed, and those of open dimensions that would give them.
void OnnxImporter::note_operands(const Node& node, std::span<const Operand> operands,
                                 std::span<const Operand> others) {
  for (size_t i = 0; i < operands.size(); ++i) {
    const Node* const giver = node.inputs[i].is_constant() ? nullptr : graph_.find(node.inputs[i].node);
    const bool is_given = giver == nullptr || role_of(*giver) == OperatorRole::kConstant;
    if (is_given) note_sizes(operands[i].shape, noted_sizes_);
    const auto& elements = operands[i].elements;
    if (!elements || elements->dtype() != DType::kInt64 || elements->rank() != 1) continue;
    const auto list = elements->values<int64_t>();
    note_sizes({list.begin(), list.end()}, noted_sizes_);
  }
  const auto* const sum = trait<WeightedSum>(node);
  for (const auto& [name, parameter] : node.parameters) {
    Shape shape = parameter->tensor.shape();
    if (sum != nullptr && sum->spatial_dims > 0)
      shape.resize(std::min<size_t>(shape.size(), 2));  // no window
    note_sizes(shape, noted_sizes_);
  }
  note_sizes(sizes_that_give(noted_sizes_, operands, others, trial_.sizes), noted_sizes_);
}

std::vector<TriedTypes> OnnxImporter::inferred(const Node& node) {
  std::vector<Operand> first;
  std::vector<Operand> second;
  for (const NodeInput& input : node.inputs) {
    first.push_back(input.is_constant() ? constant_operand(input.constant) : types(input).first);
    second.push_back(input.is_constant() ? constant_operand(input.constant) : types(input).second);
  }
  std::vector<TriedTypes> results;
  std::vector<Operand> second_results;
  try {
    for (Operand& result : infer_results(node, first)) results.push_back({std::move(result), {}});
    second_results = infer_results(node, second);
  } catch (const Error&) {
    note_operands(node, first, second);
    throw;
  }
  has_hidden_sizes_ =
      has_hidden_sizes_ || hides_open_sizes(node, first, second, results[0].first, second_results[0]);
  for (size_t i = 0; i < results.size(); ++i) {
    results[i].second = std::move(second_results[i]);
    auto& [first_result, second_result] = results[i];
    const bool depends =
        depends_on_open_sizes(node, first, second, first_result, second_result, trial_.sizes) ||
        (may_cancel(first, second, first_result, second_result) &&
         other_sizes_.differ(graph_, first_sizes_, value_name(node.name, i), first_result, second_result));
    if (!depends) continue;
    first_result.elements.reset();
    second_result.elements.reset();
  }
  return results;
}

NodeInput OnnxImporter::add(Node node) {
  node.mase_type = find_operator(node.op).mase_type;
  const std::string name = node.name;
  if (graph_.nodes().size() > most_nodes_)
    fail("the model stands for more than {} nodes, from {} bytes", most_nodes_, file_.byte_size());
  const bool is_own = role_of(node) == OperatorRole::kConstant;
  std::vector<TriedTypes> results = inferred(graph_.add(std::move(node)));
  for (size_t i = 0; i < results.size(); ++i) {
    auto& [first, second] = results[i];
    if (have_same_elements(first, second)) second.elements = first.elements;
    if (!is_own && first.elements && !may_know(static_cast<int64_t>(first.elements->byte_size()))) {
      first.elements.reset();
      second.elements.reset();
    }
    types_[value_name(name, i)] = std::move(results[i]);
  }
  return NodeInput::of(name);
}

void OnnxImporter::let_move(const Tensor& constant) {
  constexpr int64_t kMoves = 4;   // that it may be transposed, reshaped, ... on average
  constexpr int64_t kReads = 32;  // by what computes others of it
  knowable_ += kMoves * static_cast<int64_t>(constant.byte_size());
  computable_ += kReads * static_cast<int64_t>(constant.byte_size());
}

bool OnnxImporter::may_know(int64_t bytes) {
  if (bytes > knowable_) return false;
  knowable_ -= bytes;
  return true;
}

NodeInput OnnxImporter::add_rounding(NodeInput value, const std::string& name, const QuantSpec& spec) {
  Node node{.name = unique_name(name), .op = "identity", .inputs = {std::move(value)}};
  node.quantization["data_out_0"] = QuantizerRef(spec);
  roundings_.insert(node.name);
  return add(std::move(node));
}

NodeInput OnnxImporter::operand(ImportedValue& value, const std::string& name) {
  if (value.source) return *value.source;
  const Tensor& constant = *value.constant;
  const bool is_weight = value.is_initializer && constant.dtype() == DType::kFloat32 && constant.numel() > 1;
  if (!value.parameter) value.parameter = ParameterRef(Parameter{constant, is_weight});
  Node node{.name = unique_name(identifier(name)), .target = kept_name(name), .op = "get_attr"};
  node.parameters = {{"value", *value.parameter}};
  node.source_names = {kept_name(name)};
  value.source = add(std::move(node));
  if (value.rounding) value.source = add_rounding(*value.source, value.source->node, *value.rounding);
  return *value.source;
}

/// A result that is the same for all sizes of open dimensions is a constant.
std::optional<RoundedConstant> OnnxImporter::folded(const NodeInput& value) {
  if (value.is_constant()) return std::nullopt;
  const auto& [first, second] = types(value);
  if (first.is_open() || first.shape != second.shape) return std::nullopt;
  const Node& node = graph_.node(value.node);
  int64_t bytes = byte_size(first);
  for (const NodeInput& input : node.inputs) {
    if (!input.is_constant() && roundings_.contains(input.node)) bytes += byte_size(types(input).first);
  }
  if (bytes <= knowable_) {
    const bool rounds = roundings_.contains(value.node);
    std::optional<RoundedConstant> constant =
        rounds ? rounded_constant(graph_, node) : moved_constants(graph_, node, first, value.result);
    if (constant && may_know(bytes)) return constant;
  }
  if (have_same_elements(first, second)) return RoundedConstant{*first.elements, std::nullopt};
  if (bytes > knowable_) return std::nullopt;
  ComputedParts parts;
  std::optional<Tensor> constant = computed_constant(node, value.result, parts);
  if (!constant || !may_know(bytes)) return std::nullopt;
  return RoundedConstant{std::move(*constant), std::nullopt};
}

namespace {

ImportedValue constant_value(const Tensor& tensor, const std::optional<QuantSpec>& rounding) {
  ImportedValue value;
  value.constant = tensor;
  value.rounding = rounding;
  return value;
}

}  // namespace

void OnnxImporter::set_output(const std::string& name, ImportedValue value) {
  if (name.empty()) return;
  if (scope_->values.contains(name)) fail("gives \"{}\", which is given already", name);
  if (value.source) {
    if (value.source->is_constant()) {
      const Operand list = constant_operand(value.source->constant);
      DETENT_CHECK(list.elements.has_value(), "output {} is {}", name, value_text(value.source->constant));
      value = constant_value(*list.elements, std::nullopt);
    } else if (std::optional<RoundedConstant> constant = folded(*value.source)) {
      roundings_.erase(value.source->node);
      value = constant_value(constant->values, constant->spec);
    } else {
      Node& node = graph_.node(value.source->node);
      if (node.source_names.size() <= value.source->result)
        node.source_names.resize(value.source->result + 1);
      std::string& source_name = node.source_names[value.source->result];
      if (source_name.empty()) source_name = kept_name(name);
    }
  }
  scope_->values[name] = &own(std::move(value));
}

void OnnxImporter::warn_of_texts(const std::vector<std::string>& outputs) const {
  constexpr size_t kMostListed = 20;
  std::vector<std::string> numbered;
  const size_t count = std::min(kMostListed, file_.texts().size());
  for (size_t i = 0; i < count; ++i)
    numbered.push_back(fmt::format("{} \"{}\"", i, kept_name(file_.texts()[i])));
  if (count < file_.texts().size()) numbered.emplace_back("...");
  file_.warn(fmt::format("{}: strings are numbers here: output {} gives {}", printable(file_.path().string()),
                         fmt::join(outputs, ", "), fmt::join(numbered, ", ")));
}

void OnnxImporter::add_outputs(const onnx::GraphProto& graph) {
  Node output{.name = "output", .op = "output", .mase_type = MaseType::kOutput};
  std::vector<std::string> texts;
  for (const onnx::ValueInfoProto& info : graph.output()) {
    const int64_t type = info.type().tensor_type().elem_type();
    const bool is_typed = info.type().has_tensor_type() && type != 0;
    NodeInput value;
    DType dtype = DType::kFloat32;
    try {
      ImportedValue& result = find(info.name(), outermost_);
      if (result.narrow_type != nullptr && result.narrow_type->is_text())
        texts.push_back(fmt::format("\"{}\"", kept_name(info.name())));
      if (result.sequence) fail("is a sequence of tensors, which is not supported");
      value = operand(result, info.name());
      dtype = is_typed ? dtype_of_onnx(type) : types(value).first.dtype;
    } catch (const Error& error) {
      fail("{}: output \"{}\": {}", file_.path().string(), info.name(), error.what());
    }
    if (dtype != types(value).first.dtype) {
      value = add({.name = unique_name(value.node + "_as_output"),
                   .op = "cast",
                   .inputs = {value},
                   .attributes = {{"dtype", std::string(dtype_name(dtype))}}});
    }
    const auto& [first, second] = types(value);
    const bool has_batch = !first.shape.empty() && first.shape[0] == first_sizes_[kBatchName] &&
                           second.shape[0] == second_sizes_[kBatchName];
    outputs_have_batch_ = outputs_have_batch_ && has_batch;
    output.inputs.push_back(value);
    output.source_names.push_back(kept_name(info.name()));
  }
  if (output.inputs.empty()) fail("{}: the graph has no outputs", file_.path().string());
  if (!texts.empty()) warn_of_texts(texts);
  graph_.add(std::move(output));
}

void OnnxImporter::remove_dead_nodes(std::set<std::string, std::less<>> live) {
  const auto nodes = graph_.nodes();
  for (size_t i = nodes.size(); i-- > 0;) {
    if (!live.contains(nodes[i].name)) continue;
    for (const NodeInput& input : nodes[i].inputs) live.insert(input.node);
  }
  graph_.erase_if(
      [&](const Node& node) { return role_of(node) != OperatorRole::kInput && !live.contains(node.name); });
  other_sizes_ = {};
}

bool OnnxImporter::is_of_qonnx() const {
  return std::ranges::any_of(file_.model().opset_import(), [](const auto& import) {
    return is_qonnx(import.domain()) || is_channels_last(import.domain());
  });
}

Graph OnnxImporter::finish() {
  try {
    remove_dead_nodes();
    verify(graph_);
    recognize_norms(graph_);
    recognize_activations(graph_);
    if (roundings_.empty()) recognize_pools(graph_);  // runtimes take the means of codes in float
    merge_repeated_layers(graph_);
    make_parameter_keys_unique(graph_);
    move_roundings_to_operands(graph_, roundings_);
    remove_dead_nodes();
    if (!roundings_.empty()) round_where_computed(graph_);
    const bool is_quantized =
        std::ranges::any_of(graph_.nodes(), [](const Node& node) { return !node.quantization.empty(); });
    if (is_quantized && !is_of_qonnx()) {
      const CodeComputation computation = let_compute_on_codes(graph_);
      const std::string file = printable(file_.path().string());
      if (!computation.in_float.empty())
        file_.warn(fmt::format("{}: sums and biases of {} may exceed 32 bits: computed in float", file,
                               listed_names(computation.in_float)));
      if (!computation.rounded_biases.empty())
        file_.warn(fmt::format(
            "{}: biases of {} are not quantized in the file, and are rounded to the steps of the integer "
            "sums (input scale x weight scale): single integers of results may differ from those of a float "
            "sum",
            file, listed_names(computation.rounded_biases)));
    }
    verify(graph_);
  } catch (const Error& error) {
    std::vector<std::string> open;
    for (const auto& [symbol, size] : first_sizes_) {
      if (symbol != kBatchName) open.push_back(symbol);
    }
    if (open.empty()) fail("{}: {}", file_.path().string(), error.what());
    advises_sizes_ = true;
    fail(
        "{0}: {1} (sizes of its inputs are open, {2}, and none that were tried fit: `detent quantize --shape "
        "NAME=...`, `detent run --shape` and `detent info --shape` take others, and `detent export {0} "
        "FIXED.onnx "
        "--shape NAME=...` writes a model that has them)",
        file_.path().string(), error.what(), fmt::join(open, ", "));
  }
  return std::move(graph_);
}

bool OnnxImporter::outputs_have_batch() const { return outputs_have_batch_; }

std::vector<std::string> OnnxImporter::open_names() const {
  std::vector<std::string> names;
  for (const auto& [name, size] : first_sizes_)
    if (size != trial_.sizes.first_batch()) names.push_back(name);
  return names;
}

bool OnnxImporter::has_open_sizes() const { return !open_names().empty(); }

}  // namespace detent
