#include <algorithm>
#include <cmath>
#include <set>

#include "case.h"

namespace detent {
namespace {

std::vector<DType> summed(GraphWriter& writer) {
  return writer.random.chance(0.75) ? std::vector{writer.real} : std::vector{DType::kInt32, DType::kInt64};
}

Shape without(const Shape& shape, const std::set<int64_t>& axes, bool keeps) {
  Shape result;
  for (int64_t d = 0; d < std::ssize(shape); ++d) {
    if (!axes.contains(d)) {
      result.push_back(shape[static_cast<size_t>(d)]);
    } else if (keeps) {
      result.push_back(1);
    }
  }
  return result;
}

Numbers reduced(const std::string& op, const Numbers& x, double count, bool is_float) {
  if (!is_float) {
    Numbers numbers{std::pow(std::max(x.magnitude, 2.0), count), 1};
    if (op.find("Sum") != std::string::npos || op == "ReduceL1")
      numbers.magnitude = std::pow(x.magnitude, 2) * count;
    numbers.is_wild = numbers.magnitude > 0x1p24;
    numbers.magnitude = std::min(numbers.magnitude, 0x1p30);
    return numbers;
  }
  const Numbers total = sum_of(x, count);
  if (op == "ReduceSum" || op == "ReduceL1") return total;
  if (op == "ReduceMax" || op == "ReduceMin") return x;
  if (op == "ReduceSumSquare") return sum_of(product(x, x), count);
  if (op == "ReduceL2") return function_of(total, 1, total.magnitude);
  if (op == "ReduceMean") return function_of(x, 1, x.magnitude);
  if (op == "ReduceLogSumExp") return function_of(x, 1, x.magnitude + std::log(count + 1));
  if (op == "ReduceLogSum") return function_of(x, 1 / std::max(x.step, 0x1p-10), 32);
  return function_of(x, 0, std::pow(std::max(x.magnitude, 1.0), count));  // ReduceProd
}

void write_reduction(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const bool compares = op == "ReduceMax" || op == "ReduceMin";
  const bool is_product = op == "ReduceProd";
  const bool is_float_only = op.starts_with("ReduceLog") || op == "ReduceL2";
  GeneratedValue x = writer.operand({.dtypes = is_float_only ? std::vector{writer.real} : summed(writer),
                                     .content = op == "ReduceLogSum" ? Content::kPositive : Content::kSmall,
                                     .may_be_wild = compares,
                                     .must_be_exact = is_product || op == "ReduceLogSum",
                                     .may_be_empty = op == "ReduceSum" && random.chance(0.3),
                                     .most_magnitude = is_product ? 4.0 : 0x1p20});
  std::vector<OnnxAttribute> attributes;
  if (random.chance(0.7)) attributes.emplace_back("keepdims", random.between(0, 1));
  const bool keeps = attributes.empty() || std::get<int64_t>(attributes[0].value) == 1;
  std::vector<int64_t> axes;
  std::set<int64_t> reduced_axes;
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (!random.chance(0.4)) continue;
    axes.push_back(writer.is_at_least(11) && random.chance(0.4) ? d - x.rank() : d);
    reduced_axes.insert(d);
  }
  random.shuffle(axes);
  const bool is_input = writer.is_at_least(op == "ReduceSum" ? 13 : 18);
  bool is_noop = false;
  GeneratedValue list = GraphWriter::absent();
  if (is_input) {
    if (random.chance(0.2)) {
      is_noop = random.chance(0.6);
      attributes.emplace_back("noop_with_empty_axes", is_noop ? 1 : 0);
    }
    if (!axes.empty() || random.chance(0.2)) list = writer.list(axes);
  } else if (!axes.empty()) {
    attributes.emplace_back("axes", axes);
  }
  if (axes.empty()) {
    for (int64_t d = 0; d < x.rank() && !is_noop; ++d) reduced_axes.insert(d);
  }
  double count = 1;
  for (const int64_t d : reduced_axes) count *= static_cast<double>(x.shape[static_cast<size_t>(d)]);
  Numbers numbers = reduced(op, x.numbers, count, x.is_float());
  numbers.is_wild = numbers.is_wild || count == 0 || (is_noop && op == "ReduceLogSum");
  numbers.is_positive = false;
  numbers.magnitude = std::max(numbers.magnitude, x.numbers.magnitude);
  writer.node(op, {x, list}, attributes, {x.dtype, without(x.shape, reduced_axes, keeps), numbers});
}

void write_position(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const GeneratedValue x = writer.operand({.dtypes = {writer.real, DType::kInt32},
                                           .least_rank = 1,
                                           .must_be_exact = true,
                                           .may_be_empty = false});
  std::vector<OnnxAttribute> attributes;
  int64_t axis = 0;
  bool keeps = true;
  if (random.chance(0.8)) attributes.emplace_back("axis", axis = writer.axis(x.rank()));
  if (random.chance(0.6)) {
    keeps = random.chance(0.5);
    attributes.emplace_back("keepdims", keeps ? 1 : 0);
  }
  if (writer.is_at_least(12) && random.chance(0.4))
    attributes.emplace_back("select_last_index", random.between(0, 1));
  writer.node(op, {x}, attributes,
              {DType::kInt64, without(x.shape, {normal_axis(axis, x.rank())}, keeps), {8, 1}});
}

void write_cumsum(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const GeneratedValue x =
      writer.operand({.dtypes = summed(writer), .least_rank = 1, .most_magnitude = 0x1p16});
  std::vector<OnnxAttribute> attributes;
  if (random.chance(0.5)) attributes.emplace_back("exclusive", random.between(0, 1));
  if (random.chance(0.5)) attributes.emplace_back("reverse", random.between(0, 1));
  const int64_t axis = writer.axis(x.rank());
  const double count = static_cast<double>(x.shape[static_cast<size_t>(normal_axis(axis, x.rank()))]);
  Numbers numbers = sum_of(x.numbers, count);
  numbers.is_positive = false;
  const GeneratedValue dim = writer.scalar(axis, random.of({DType::kInt32, DType::kInt64}));
  writer.node(op, {x, dim}, attributes, {x.dtype, x.shape, numbers});
}

/// Values are exact, so ties are ties everywhere: the first comes first. Where results are not to be sorted,
/// their order is open, so they always are.
void write_top_k(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  std::vector<DType> dtypes = {writer.real};
  if (writer.is_at_least(11) && random.chance(0.3)) dtypes = {DType::kInt64, DType::kInt32};
  const GeneratedValue x = writer.operand({.dtypes = dtypes, .least_rank = 1, .must_be_exact = true});
  std::vector<OnnxAttribute> attributes;
  int64_t axis = -1;
  if (random.chance(0.7)) attributes.emplace_back("axis", axis = writer.axis(x.rank()));
  const auto dim = static_cast<size_t>(normal_axis(axis, x.rank()));
  if (writer.is_at_least(11) && random.chance(0.6)) attributes.emplace_back("largest", random.between(0, 1));
  Shape shape = x.shape;
  shape[dim] = random.between(random.chance(0.1) ? 0 : std::min<int64_t>(1, x.shape[dim]), x.shape[dim]);
  std::vector<GeneratedValue> inputs = {x};
  if (writer.is_at_least(10)) {
    inputs.push_back(writer.list({shape[dim]}));
  } else {
    shape[dim] = std::max<int64_t>(shape[dim], 1);
    attributes.emplace_back("k", shape[dim]);
  }
  writer.node(op, inputs, attributes, {{x.dtype, shape, x.numbers}, {DType::kInt64, shape, {8, 1}}});
}

void write_lp_normalization(GraphWriter& writer, const std::string& op) {
  const GeneratedValue x =
      writer.operand({.dtypes = {writer.real},
                      .least_rank = 1,
                      .content = writer.random.chance(0.8) ? Content::kPositive : Content::kSmall,
                      .must_be_exact = true,
                      .most_magnitude = 0x1p10});
  std::vector<OnnxAttribute> attributes;
  if (writer.random.chance(0.7)) attributes.emplace_back("axis", writer.axis(x.rank()));
  if (writer.random.chance(0.6)) attributes.emplace_back("p", writer.random.between(1, 2));
  writer.node(op, {x}, attributes, {x.dtype, x.shape, function_of(x.numbers, 0, 1)});
}

}  // namespace

std::vector<OperatorGenerator> reduction_generators() {
  std::vector<OperatorGenerator> list = {{"ArgMax", 7, write_position},
                                         {"ArgMin", 7, write_position},
                                         {"CumSum", 11, write_cumsum},
                                         {"TopK", 7, write_top_k},
                                         {"LpNormalization", 7, write_lp_normalization}};
  for (const char* op : {"ReduceSum", "ReduceMean", "ReduceProd", "ReduceMax", "ReduceMin", "ReduceL1",
                         "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"})
    list.push_back({op, 7, write_reduction});
  return list;
}

}  // namespace detent
