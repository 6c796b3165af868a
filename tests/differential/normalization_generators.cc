#include <algorithm>

#include "case.h"

namespace detent {
namespace {

/// Division by a deviation is far from steep where the inputs are exact and differ.
constexpr double kSlope = 64;

GeneratedValue channels_input(GraphWriter& writer, int64_t least_rank, int64_t most_rank) {
  return writer.operand({.dtypes = {writer.real},
                         .least_rank = least_rank,
                         .most_rank = most_rank,
                         .must_be_exact = true,
                         .may_be_empty = false,
                         .most_magnitude = 64});
}

GeneratedValue vector_of(GraphWriter& writer, int64_t size, Content content = Content::kSmall) {
  return writer.operand({.dtypes = {writer.real},
                         .shape = Shape{size},
                         .content = content,
                         .must_be_exact = true,
                         .most_magnitude = 8});
}

std::vector<OnnxAttribute> epsilon(GraphWriter& writer) {
  if (writer.random.chance(0.5)) return {{"epsilon", writer.random.of({1e-3F, 1e-2F, 0.5F})}};
  return {};
}

Numbers normalized(const GeneratedValue& x) { return function_of(x.numbers, kSlope, 256); }

void write_batch_norm(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const GeneratedValue x = channels_input(writer, 2, 5);
  const int64_t channels = x.shape[1];
  std::vector<OnnxAttribute> attributes = epsilon(writer);
  if (random.chance(0.3)) attributes.emplace_back("momentum", 0.75F);
  const std::vector<GeneratedValue> inputs = {x, vector_of(writer, channels), vector_of(writer, channels),
                                              vector_of(writer, channels),
                                              vector_of(writer, channels, Content::kPositive)};
  std::vector<Result> results = {{x.dtype, x.shape, normalized(x)}};
  if (writer.is_at_least(14) && random.chance(0.15)) {
    attributes.emplace_back("training_mode", 1);
    results.push_back({x.dtype, {channels}, function_of(x.numbers, 1, 64)});
    results.push_back({x.dtype, {channels}, function_of(x.numbers, 64, 4096)});
  }
  writer.node(op, inputs, attributes, results);
}

void write_instance_norm(GraphWriter& writer, const std::string& op) {
  const GeneratedValue x = channels_input(writer, 3, 5);
  writer.node(op, {x, vector_of(writer, x.shape[1]), vector_of(writer, x.shape[1])}, epsilon(writer),
              {x.dtype, x.shape, normalized(x)});
}

void write_layer_norm(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const GeneratedValue x = channels_input(writer, 1, 4);
  std::vector<OnnxAttribute> attributes = epsilon(writer);
  int64_t axis = -1;
  if (random.chance(0.6)) attributes.emplace_back("axis", axis = random.between(-x.rank(), x.rank() - 1));
  const Shape inner(x.shape.begin() + normal_axis(axis, x.rank()), x.shape.end());
  std::vector<GeneratedValue> inputs = {
      x,
      writer.operand({.dtypes = {writer.real}, .shape = inner, .must_be_exact = true, .most_magnitude = 8})};
  std::vector<Result> results = {{x.dtype, x.shape, normalized(x)}};
  if (op == "LayerNormalization") {
    if (random.chance(0.6))
      inputs.push_back(writer.operand(
          {.dtypes = {writer.real}, .shape = inner, .must_be_exact = true, .most_magnitude = 8}));
    Shape outer = x.shape;
    std::fill(outer.begin() + normal_axis(axis, x.rank()), outer.end(), 1);
    if (random.chance(0.15)) {
      results.push_back({DType::kFloat32, outer, function_of(x.numbers, 1, 64)});
      results.push_back({DType::kFloat32, outer, function_of(x.numbers, kSlope, 400)});
    }
  }
  writer.node(op, inputs, attributes, results);
}

void write_group_norm(GraphWriter& writer, const std::string& op) {
  const GeneratedValue x = channels_input(writer, 3, 4);
  const int64_t channels = x.shape[1];
  const int64_t groups = channels % 2 == 0 ? writer.random.of<int64_t>({1, 2, channels})
                                           : writer.random.of<int64_t>({1, channels});
  std::vector<OnnxAttribute> attributes = epsilon(writer);
  attributes.emplace_back("num_groups", groups);
  const int64_t count = writer.is_at_least(21) ? channels : groups;
  writer.node(op, {x, vector_of(writer, count), vector_of(writer, count)}, attributes,
              {x.dtype, x.shape, normalized(x)});
}

void write_mean_variance(GraphWriter& writer, const std::string& op) {
  const GeneratedValue x = channels_input(writer, 4, 4);
  std::vector<OnnxAttribute> attributes;
  if (writer.random.chance(0.5))
    attributes.emplace_back("axes",
                            writer.random.of({std::vector<int64_t>{0, 1, 2, 3}, {1}, {0, 2, 3}, {2, 3}}));
  // Where all are equal both divide nothing by nearly nothing.
  writer.node(op, {x}, attributes, {x.dtype, x.shape, function_of(x.numbers, kSlope, 256)});
}

}  // namespace

std::vector<OperatorGenerator> normalization_generators() {
  return {
      {"BatchNormalization", 9, write_batch_norm},  {"InstanceNormalization", 7, write_instance_norm},
      {"LayerNormalization", 17, write_layer_norm}, {"RMSNormalization", 23, write_layer_norm},
      {"GroupNormalization", 21, write_group_norm}, {"MeanVarianceNormalization", 9, write_mean_variance}};
}

}  // namespace detent
