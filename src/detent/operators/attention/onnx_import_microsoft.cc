#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "detent/core/error.h"
#include "detent/onnx/importer.h"
#include "detent/onnx/node_import.h"
#include "detent/operators/attention/onnx_heads.h"
#include "detent/operators/onnx_import.h"
#include "detent/operators/quantization/onnx_import.h"

namespace detent {
namespace {

// Attention as ONNX Runtime's optimizer writes it:
// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md

/// Where a node has what is beside queries, keys and values.
struct AttentionInputs {
  size_t mask;
  size_t added;
  size_t past_key;  // of keys and values together where the next is the same
  size_t past_value;
};

/// Queries, keys and values with heads, keys and values with those of the past.
struct AttendedParts {
  NodeInput query;
  NodeInput key;
  NodeInput value;
  int64_t size = 0;  // of a head of queries
};

NodeInput stacked_part(NodeImport& node, size_t past, int64_t index) {
  return node.add("select", {node.input(past)}, {{"dim", 0}, {"index", index}});
}

void join_past(NodeImport& node, const AttentionInputs& inputs, AttendedParts& parts) {
  if (node.has_input(inputs.past_key) != node.has_input(inputs.past_value))
    fail("only one of past_key and past_value");
  if (!node.has_input(inputs.past_key)) return;
  const bool is_stacked = inputs.past_key == inputs.past_value;
  const auto past = [&](size_t input, int64_t index) {
    return is_stacked ? stacked_part(node, input, index) : node.input(input);
  };
  parts.key = node.add("cat", {past(inputs.past_key, 0), parts.key}, {{"dim", kSequenceAxis}});
  parts.value = node.add("cat", {past(inputs.past_value, 1), parts.value}, {{"dim", kSequenceAxis}});
}

NodeInput as_int64(NodeImport& node, NodeInput x) {
  if (node.type_of(x).dtype == DType::kInt64) return x;
  return node.add("cast", {std::move(x)}, {{"dtype", "int64"}});
}

/// The first or second of as many numbers as there are samples, as [batch, 1, 1, 1].
NodeInput numbers_of_samples(NodeImport& node, const NodeInput& list, const NodeInput& samples, bool second) {
  const NodeInput end = second ? node.add("add", {samples, samples}) : samples;
  const NodeInput begin = second ? samples : NodeImport::list_of({0});
  const NodeInput part = node.add("dynamic_slice", {list, begin, end, NodeImport::list_of({0})});
  return node.add("unsqueeze", {part, NodeImport::list_of({1, 2, 3})});
}

/// Which keys a list of their ends, or of ends and beginnings, leaves out.
NodeInput beyond_ends(NodeImport& node, size_t mask, const AttendedParts& parts) {
  const int64_t samples = node.type_of(parts.query).shape[0];
  const int64_t numbers = node.type(mask).shape[0];
  const bool has_starts = numbers == 2 * samples;
  if (samples < 0 || (numbers != samples && !has_starts && numbers != 3 * samples + 2))
    node.refuse(fmt::format("a mask of {} numbers for a batch of {}", numbers, samples));
  const NodeInput list = as_int64(node, node.input(mask));
  const NodeInput places = places_of(node, parts.key);
  const NodeInput batch = node.size_of(parts.query, 0);
  const NodeInput after = node.add("ge", {places, numbers_of_samples(node, list, batch, false)});
  if (!has_starts) return after;
  const NodeInput before = node.add("lt", {places, numbers_of_samples(node, list, batch, true)});
  return node.add("logical_or", {after, before});
}

/// Addend of the scores for a mask.
NodeInput mask_bias(NodeImport& node, size_t mask, const AttendedParts& parts) {
  const double filtered = node.number("mask_filter_value", -10000.0F);
  NodeInput is_left_out;
  const size_t rank = node.rank(mask);
  if (rank == 1) {
    is_left_out = beyond_ends(node, mask, parts);
  } else if (rank == 2 || rank == 3) {
    const NodeInput hides = node.add("le", {node.input(mask), NodeImport::integer_of(0)});
    is_left_out = node.add("unsqueeze", {hides, NodeImport::list_of(rank == 2 ? std::vector<int64_t>{1, 2}
                                                                              : std::vector<int64_t>{1})});
  } else {
    node.refuse(fmt::format("a mask of {} dimensions", rank));
  }
  const NodeInput zero = node.constant_of(Tensor(DType::kFloat32, {}));
  return node.add("where", {is_left_out, NodeImport::number_of(filtered), zero});
}

/// A query attends the keys of the past, and its own and earlier ones; one alone attends all.
NodeInput without_later_keys(NodeImport& node, const AttendedParts& parts, NodeInput bias) {
  const NodeInput queries = node.size_of(parts.query, kSequenceAxis);
  const NodeInput now = node.add("sub", {node.size_of(parts.key, kSequenceAxis), queries});
  const NodeInput places = node.add("add", {places_of(node, parts.query), now});
  const NodeInput column = node.add("unsqueeze", {places, NodeImport::list_of({1})});
  const NodeInput is_seen = node.add("le", {places_of(node, parts.key), column});
  if (bias.is_absent()) bias = node.constant_of(Tensor(DType::kFloat32, {}));
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  return node.add("where", {is_seen, std::move(bias), NodeImport::number_of(kNever)});
}

struct Attended {
  NodeInput result;
  NodeInput scores;
};

/// softmax(scale Q K^T + bias) V
Attended attended(NodeImport& node, const AttentionInputs& inputs, const AttendedParts& parts) {
  double scale = node.number("scale", 0);
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(parts.size));
  NodeInput scores = scaled_scores(node, parts.query, parts.key, scale);
  NodeInput bias = NodeInput::absent();
  if (node.has_input(inputs.mask)) bias = mask_bias(node, inputs.mask, parts);
  if (node.integer("unidirectional", 0) != 0 && node.type_of(parts.query).shape[kSequenceAxis] != 1)
    bias = without_later_keys(node, parts, std::move(bias));
  for (const NodeInput& term :
       {bias, node.has_input(inputs.added) ? node.input(inputs.added) : NodeInput::absent()})
    if (!term.is_absent()) scores = node.add("add", {scores, term});
  const NodeInput shares = node.add("softmax", {scores}, {{"dim", -1}});
  return {join_heads(node, node.add("matmul", {shares, parts.value})), scores};
}

int64_t heads_of_node(const NodeImport& node) {
  const int64_t heads = node.integer("num_heads", 0);
  expect_heads(heads, heads);
  return heads;
}

void refuse_shared_past(const NodeImport& node) {
  if (node.integer("past_present_share_buffer", 0) != 0)
    node.refuse("a past that shares its buffer with the present (past_present_share_buffer)");
}

template <class T>
Tensor rows_of_columns(const Tensor& matrix, int64_t begin, int64_t end) {
  const int64_t rows = matrix.dim(0);
  const int64_t columns = matrix.dim(1);
  Tensor part(matrix.dtype(), {end - begin, rows});
  const auto from = matrix.values<T>();
  const auto to = part.values<T>();
  for (int64_t c = begin; c < end; ++c) {
    for (int64_t r = 0; r < rows; ++r)
      to[static_cast<size_t>((c - begin) * rows + r)] = from[static_cast<size_t>(r * columns + c)];
  }
  return part;
}

/// Columns of a constant matrix as the rows of a layer's weight, with the scales that they have.
ParameterRef weight_of_columns(NodeImport& node, const RoundedConstant& matrix, int64_t begin, int64_t end) {
  Tensor values = rows_of_columns<float>(matrix.values, begin, end);
  std::optional<QuantSpec> spec = matrix.spec;
  if (spec) {
    const Tensor places = scale_places(*spec, matrix.values.shape());
    spec = rounding_at_places(*spec, rows_of_columns<int32_t>(places, begin, end), spec->group_size);
  }
  return spec ? node.parameter(std::move(values), *spec) : NodeImport::parameter(std::move(values));
}

Tensor part_of_vector(const Tensor& vector, int64_t begin, int64_t end) {
  Tensor part(DType::kFloat32, {end - begin});
  const auto from = vector.values<float>().subspan(static_cast<size_t>(begin), part.values<float>().size());
  std::ranges::copy(from, part.values<float>().begin());
  return part;
}

/// The ends of the columns of queries, keys and values among all: a third each, or as qkv_hidden_sizes says.
std::array<int64_t, 4> column_ends(const NodeImport& node, int64_t columns) {
  const std::vector<int64_t> sizes =
      node.integers("qkv_hidden_sizes", {columns / 3, columns / 3, columns / 3});
  const auto fits = [&](int64_t size) { return size > 0 && size <= columns; };
  if (sizes.size() != 3 || !std::ranges::all_of(sizes, fits) || sizes[0] != sizes[1] ||
      sizes[0] + sizes[1] + sizes[2] != columns)
    fail("{} columns for queries, keys and values of {}", columns, fmt::join(sizes, ", "));
  return {0, sizes[0], sizes[0] + sizes[1], columns};
}

/// A layer of the columns of a matrix and a bias, which may be nullptr. Beside integers it stays a float: as
/// the layer's bias it would be rounded to the unit of the sums.
NodeInput layer_of_columns(NodeImport& node, const NodeInput& x, const RoundedConstant& matrix,
                           const Tensor* bias, std::pair<int64_t, int64_t> columns) {
  NodeImport::Parameters parameters = {
      {"weight", weight_of_columns(node, matrix, columns.first, columns.second)}};
  if (bias == nullptr) return node.add("linear", {x}, {}, std::move(parameters));
  Tensor part = part_of_vector(*bias, columns.first, columns.second);
  if (matrix.spec) {
    const NodeInput sums = node.add("linear", {x}, {}, std::move(parameters));
    return node.add("add", {sums, node.constant_of(std::move(part))});
  }
  parameters.emplace_back("bias", NodeImport::parameter(std::move(part)));
  return node.add("linear", {x}, {}, std::move(parameters));
}

/// Projections of the input of an attention: its product with a matrix, input 1, whose columns are those of
/// queries, keys and values, and a bias, input 2. `matrix` is the constant that it is.
AttendedParts projected(NodeImport& node, const NodeInput& x, const std::optional<RoundedConstant>& matrix) {
  if (node.rank(0) != 3 || node.rank(1) != 2)
    fail("an input of {} dimensions and a weight of {}, expected 3 and 2", node.rank(0), node.rank(1));
  const int64_t heads = heads_of_node(node);
  const int64_t columns = known_size(node, 1, 1);
  const std::array<int64_t, 4> ends = column_ends(node, columns);
  const bool has_bias = node.has_input(2);
  if (has_bias && (node.rank(2) != 1 || node.size(2, 0) != columns))
    fail("a bias of shape {} for {} columns", shape_text(node.type(2).shape), columns);
  const Tensor* const bias = node.constant(2);
  const bool are_layers = matrix && (!has_bias || bias != nullptr);
  NodeInput whole;
  if (!are_layers) {
    whole = node.add("matmul", {x, node.input(1)});
    if (has_bias) whole = node.add("add", {whole, node.input(2)});
  }
  std::array<NodeInput, 3> parts;
  for (size_t i = 0; i < parts.size(); ++i) {
    static_cast<void>(size_of_heads(ends[i + 1] - ends[i], heads));
    NodeInput part = are_layers ? layer_of_columns(node, x, *matrix, bias, {ends[i], ends[i + 1]})
                                : sliced_last(node, whole, ends[i], ends[i + 1]);
    parts[i] = split_heads(node, std::move(part), heads);
  }
  return {parts[0], parts[1], parts[2], size_of_heads(ends[1], heads)};
}

/// Keys and values one after the other, as the next run's past.
void set_stacked_present(NodeImport& node, const AttendedParts& parts) {
  if (!node.wants(1)) return;
  std::vector<NodeInput> both;
  for (const NodeInput& part : {parts.key, parts.value})
    both.push_back(node.add("unsqueeze", {part, NodeImport::list_of({0})}));
  node.set_output(1, node.add("cat", std::move(both), {{"dim", 0}}));
}

void give_projected_attention(NodeImport& node, const AttentionInputs& inputs, const NodeInput& x,
                              const std::optional<RoundedConstant>& matrix) {
  refuse_shared_past(node);
  if (node.integer("do_rotary", 0) != 0) node.refuse("do_rotary");
  AttendedParts parts = projected(node, x, matrix);
  join_past(node, inputs, parts);
  node.set_output(0, attended(node, inputs, parts).result);
  set_stacked_present(node, parts);
}

void convert_projected_attention(NodeImport& node) {
  std::optional<RoundedConstant> matrix;
  if (const Tensor* const constant = node.constant(1);
      constant != nullptr && constant->dtype() == DType::kFloat32)
    matrix = RoundedConstant{*constant, node.value(1).rounding};
  if (node.rank(1) != 2) fail("a weight of {} dimensions, expected 2", node.rank(1));
  give_projected_attention(node, {.mask = 3, .added = 5, .past_key = 4, .past_value = 4}, node.input(0),
                           matrix);
}

/// The same of codes: their scales are inputs 3 and 4, their zero points inputs 6 and 7.
void convert_quantized_attention(NodeImport& node) {
  constexpr size_t kNone = 99;
  const auto matrix = rounded_constant(node, {1, 4, 7}, 1);
  if (!matrix || matrix->values.rank() != 2)
    node.refuse("a weight whose codes, scale or zero point are computed");
  const AttentionInputs inputs = {.mask = 5, .added = kNone, .past_key = 8, .past_value = 8};
  give_projected_attention(node, inputs, dequantized(node, {0, 3, 6}), matrix);
}

/// Adds the part of a bias of all columns of queries, keys and values that belongs to one of them.
NodeInput with_part_of_bias(NodeImport& node, size_t bias, NodeInput x, int64_t begin, int64_t end) {
  if (!node.has_input(bias)) return x;
  return node.add("add", {std::move(x), sliced_last(node, node.input(bias), begin, end)});
}

enum SeparateInput : size_t { kOfQuery, kOfKey, kOfValue, kBiases, kPadding, kAdded, kKeys, kValues };

/// Heads of queries, keys and values that are inputs of their own. Keys and values that come with heads are
/// those of another sequence.
AttendedParts separate_parts(NodeImport& node, int64_t heads) {
  if (!node.has_input(kOfKey) || !node.has_input(kOfValue) || node.rank(kOfQuery) != 3)
    node.refuse("queries, keys or values in one tensor");
  const size_t rank = node.rank(kOfKey);
  if ((rank != 3 && rank != 4) || node.rank(kOfValue) != rank)
    node.refuse(fmt::format("keys of {} and values of {} dimensions", rank, node.rank(kOfValue)));
  const int64_t columns = known_size(node, kOfQuery, 2);
  AttendedParts parts;
  parts.size = size_of_heads(columns, heads);
  NodeInput query = with_part_of_bias(node, kBiases, node.input(kOfQuery), 0, columns);
  parts.query = split_heads(node, std::move(query), heads);
  if (rank == 4) {
    parts.key = node.input(kOfKey);
    parts.value = node.input(kOfValue);
    return parts;
  }
  const int64_t of_values = known_size(node, kOfValue, 2);
  static_cast<void>(size_of_heads(of_values, heads));
  NodeInput key = with_part_of_bias(node, kBiases, node.input(kOfKey), columns, 2 * columns);
  NodeInput value =
      with_part_of_bias(node, kBiases, node.input(kOfValue), 2 * columns, 2 * columns + of_values);
  parts.key = split_heads(node, std::move(key), heads);
  parts.value = split_heads(node, std::move(value), heads);
  return parts;
}

void convert_multi_head_attention(NodeImport& node) {
  const int64_t heads = heads_of_node(node);
  for (size_t i = kValues + 1; i < node.input_count(); ++i)
    if (node.has_input(i)) node.refuse(fmt::format("input {}, of a past that shares its buffer,", i));
  AttendedParts parts = separate_parts(node, heads);
  const AttentionInputs inputs = {
      .mask = kPadding, .added = kAdded, .past_key = kKeys, .past_value = kValues};
  join_past(node, inputs, parts);
  const Attended result = attended(node, inputs, parts);
  node.set_output(0, result.result);
  if (node.wants(1)) node.set_output(1, parts.key);
  if (node.wants(2)) node.set_output(2, parts.value);
  if (node.wants(3)) node.set_output(3, result.scores);
}

}  // namespace

OnnxConverterList microsoft_attention_converters() {
  return {{"Attention", convert_projected_attention},
          {"QAttention", convert_quantized_attention},
          {"MultiHeadAttention", convert_multi_head_attention}};
}

}  // namespace detent
