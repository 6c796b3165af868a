#include <algorithm>

#include "detent/core/error.h"
#include "detent/onnx/import_steps.h"
#include "detent/onnx/importer.h"
#include "detent/operators/onnx_import.h"

// Sequences exist while a model is read: their tensors are values of the graph.

namespace detent {
namespace {

using Sequence = std::vector<ImportedValue*>;

/// A position that counts from the end where it is negative, below `end`.
int64_t known_position(const NodeImport& node, size_t input, size_t size, int64_t end) {
  const auto position = node.integer(input);
  if (!position) node.refuse("a position in a sequence that is not known before the network runs");
  const int64_t counted = *position < 0 ? *position + static_cast<int64_t>(size) : *position;
  if (counted < 0 || counted >= end) fail("position {} of a sequence of {} tensors", *position, size);
  return counted;
}

void convert_construct(NodeImport& node) {
  Sequence sequence;
  for (size_t i = 0; i < node.input_count(); ++i) sequence.push_back(&node.value(i));
  node.set_sequence(0, std::move(sequence));
}

void convert_empty(NodeImport& node) { node.set_sequence(0, Sequence()); }

void convert_insert(NodeImport& node) {
  if (node.any_sequence(0).grows && !node.has_input(2)) {
    ImportedValue grown = node.any_sequence(0);
    grown.sequence->push_back(&node.value(1));
    return node.set_sequence(0, std::move(grown));
  }
  Sequence sequence = node.sequence(0);
  const auto size = std::ssize(sequence);
  const int64_t at = node.has_input(2) ? known_position(node, 2, sequence.size(), size + 1) : size;
  sequence.insert(sequence.begin() + at, &node.value(1));
  node.set_sequence(0, std::move(sequence));
}

void convert_erase(NodeImport& node) {
  Sequence sequence = node.sequence(0);
  if (sequence.empty()) fail("an empty sequence");
  const auto size = std::ssize(sequence);
  const int64_t at = node.has_input(1) ? known_position(node, 1, sequence.size(), size) : size - 1;
  sequence.erase(sequence.begin() + at);
  node.set_sequence(0, std::move(sequence));
}

/// Whether all tensors are rows.
bool has_rows_alone(const ImportedValue& list) {
  return list.rows && list.sequence->empty() && !list.joined_axis && !list.grows;
}

void convert_at(NodeImport& node) {
  const ImportedValue& list = node.any_sequence(0);
  if (has_rows_alone(list)) {
    const NodeInput row = node.add("gather", {*list.rows, node.input(1)}, {{"dim", int64_t{0}}});
    return node.pass_on(node.own(row, list));
  }
  const Sequence sequence = node.sequence(0);
  const int64_t at = known_position(node, 1, sequence.size(), std::ssize(sequence));
  node.pass_on(*sequence[static_cast<size_t>(at)]);
}

void convert_length(NodeImport& node) {
  const ImportedValue& list = node.any_sequence(0);
  if (has_rows_alone(list)) {
    const NodeInput size = node.size_of(*list.rows, 0);
    return node.set_output(0, node.add("squeeze", {size, NodeImport::list_of({0})}));
  }
  node.set_output(0, Tensor::from<int64_t>({}, {std::ssize(node.sequence(0))}));
}

/// All rows of a tensor, one after the other along an axis of a row, or of a new one.
NodeInput joined_rows(NodeImport& node, const NodeInput& rows, int64_t axis, bool is_new) {
  if (is_new) return with_first_dim_at(node, rows, axis);
  const auto rank = std::ssize(node.type_of(rows).shape) - 1;
  const int64_t place = axis < 0 ? axis + rank : axis;
  if (place < 0 || place >= rank) fail("axis {} of tensors of {} dimensions", axis, rank);
  return node.add("flatten", {with_first_dim_at(node, rows, place)},
                  {{"start_dim", place}, {"end_dim", place + 1}});
}

void convert_concat_from(NodeImport& node) {
  const int64_t axis = node.integer("axis", 0);
  const bool is_new = node.integer("new_axis", 0) != 0;
  const ImportedValue& given = node.any_sequence(0);
  std::vector<NodeInput> parts;
  for (ImportedValue* const value : given.rows ? *given.sequence : node.sequence(0)) {
    const NodeInput part = node.operand(*value);
    parts.push_back(is_new ? node.add("unsqueeze", {part, NodeImport::list_of({axis})}) : part);
  }
  if (given.joined_axis) {
    const auto rank = std::ssize(node.type_of(*given.rows).shape);
    if (is_new || *given.joined_axis != (axis < 0 ? axis + rank : axis))
      node.refuse("tensors of several sizes, joined along several axes");
    parts.push_back(*given.rows);
  } else if (given.rows) {
    parts.push_back(joined_rows(node, *given.rows, axis, is_new));
  }
  if (parts.empty()) fail("an empty sequence");
  node.set_output(0, parts.size() == 1 ? parts.front() : node.add("cat", std::move(parts), {{"dim", axis}}));
}

/// The sizes of the parts along `axis`.
std::vector<int64_t> part_sizes(const NodeImport& node, int64_t axis) {
  const bool is_list = node.has_input(1) && node.rank(1) == 1;
  if (is_list) {
    const auto sizes = node.integers(1);
    if (!sizes) node.refuse("sizes of parts that are not known before the network runs");
    return *sizes;
  }
  const auto whole = node.size(0, axis);
  if (!whole) node.refuse("an open size to split");
  const auto each = node.has_input(1) ? node.integer(size_t{1}) : 1;
  if (!each || *each < 1) node.refuse("a size of parts that is not known, or below 1");
  constexpr int64_t kMostParts = 1 << 16;
  if (*whole / *each > kMostParts) fail("{} parts, expected at most {}", *whole / *each, kMostParts);
  std::vector<int64_t> sizes;
  for (int64_t first = 0; first < *whole; first += *each) sizes.push_back(std::min(*each, *whole - first));
  return sizes;
}

/// Whether there are parts of one element, as many as only a run knows.
bool splits_open_size(const NodeImport& node, int64_t axis) {
  const bool is_list = node.has_input(1) && node.rank(1) == 1;
  if (!is_list) return !node.size(0, axis) && (!node.has_input(1) || node.integer(size_t{1}) == 1);
  const Node* const sizes = node.integers(1) ? nullptr : node.producer(1);
  double value = 0;
  return sizes != nullptr && sizes->op == "full" && *sizes->attributes.find("value")->number(value) == 1;
}

ImportedValue rows_of_input(NodeImport& node, int64_t axis, bool keeps_dim) {
  const auto rank = static_cast<int64_t>(node.rank(0));
  const int64_t place = axis < 0 ? axis + rank : axis;
  if (place < 0 || place >= rank) fail("axis {} of a tensor of {} dimensions", axis, rank);
  List dims = {Value(place)};
  for (int64_t d = 0; d < rank; ++d)
    if (d != place) dims.emplace_back(d);
  ImportedValue list;
  list.sequence.emplace();
  list.float_type = node.value(0).float_type;
  list.narrow_type = node.value(0).narrow_type;
  list.rows = place == 0 ? node.input(0) : node.add("permute", {node.input(0)}, {{"dims", std::move(dims)}});
  if (keeps_dim) list.rows = node.add("unsqueeze", {*list.rows, NodeImport::list_of({place + 1})});
  return list;
}

void convert_split_to(NodeImport& node) {
  const int64_t axis = node.integer("axis", 0);
  const bool keeps_dim = node.has_input(1) || node.integer("keepdims", 1) != 0;
  if (splits_open_size(node, axis)) return node.set_sequence(0, rows_of_input(node, axis, keeps_dim));
  const std::vector<int64_t> sizes = part_sizes(node, axis);
  if (sizes.empty() || std::ranges::any_of(sizes, [](int64_t size) { return size < 1; }))
    node.refuse("parts without elements");
  const NodeInput parts = node.add("split", {node.input(0)}, {{"sizes", Value(sizes)}, {"dim", axis}});
  Sequence sequence;
  for (size_t i = 0; i < sizes.size(); ++i) {
    NodeInput part = NodeInput::of(parts.node, i);
    if (!keeps_dim) part = node.add("squeeze", {part, NodeImport::list_of({axis})});
    sequence.push_back(&node.own(std::move(part), node.value(0)));
  }
  node.set_sequence(0, std::move(sequence));
}

void convert_optional(NodeImport& node) {
  if (!node.has_input(0)) node.refuse("an optional value that is absent");
  node.pass_on(node.any_value(0));
}

void convert_has_element(NodeImport& node) {
  Tensor result(DType::kBool, {});
  result.values<bool>()[0] = node.has_input(0);
  node.set_output(0, std::move(result));
}

}  // namespace

OnnxConverterList sequence_converters() {
  return {{"SequenceConstruct", convert_construct},
          {"SequenceEmpty", convert_empty},
          {"SequenceInsert", convert_insert},
          {"SequenceErase", convert_erase},
          {"SequenceAt", convert_at},
          {"SequenceLength", convert_length},
          {"ConcatFromSequence", convert_concat_from},
          {"SplitToSequence", convert_split_to},
          {"Optional", convert_optional},
          {"OptionalGetElement", convert_optional},
          {"OptionalHasElement", convert_has_element}};
}

}  // namespace detent
