#include "detent/onnx/open_sizes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iterator>
#include <utility>

#include "detent/core/convert.h"
#include "detent/core/element_types.h"
#include "detent/core/error.h"
#include "detent/graph/known_elements.h"

namespace detent {
namespace {

/// Whether both are known, of one shape, and not the same.
bool have_other_elements(const Operand& a, const Operand& b) {
  return a.elements && b.elements && a.shape == b.shape && !have_same_elements(a, b);
}

/// a for step 0 and b for step 1; of truth values b for all others.
Tensor on_line(const Tensor& a, const Tensor& b, double step) {
  if (a.dtype() == DType::kBool) return b;
  const Tensor start = to_dtype(a, DType::kFloat64);
  const Tensor next = to_dtype(b, DType::kFloat64);
  Tensor tried(DType::kFloat64, a.shape());
  for (size_t i = 0; double& element : tried.values<double>()) {
    const double from = start.values<double>()[i];
    const double width = next.values<double>()[i] - from;
    element = width == 0 ? from : from + step * width;
    ++i;
  }
  return to_dtype(tried, a.dtype());
}

/// Where to look on the line, in halves of size: a whole number and parts of size, so that batches are whole.
/// The first is where every open size is 1; sizes of all of them have many remainders.
constexpr std::array<std::pair<double, double>, 8> kSteps = {
    {{-2, 2}, {-1, 0}, {1, 1}, {1, 2}, {2, 5}, {7, 18}, {1000, 3}, {1'000'003, 0}}};

constexpr double step_at(std::pair<double, double> at, OpenSizes sizes) {
  const double halves = static_cast<double>(sizes.part) / 2;
  return halves * (at.first + at.second / static_cast<double>(sizes.size));
}
constexpr bool is_one_at_first_step(OpenSizes sizes) {
  const double step = step_at(kSteps[0], sizes);
  const auto at_step = [&](int64_t first, int64_t second) {
    return static_cast<double>(first) + step * static_cast<double>(second - first);
  };
  return at_step(sizes.first(), sizes.second()) == 1 &&
         at_step(sizes.first_batch(), sizes.second_batch()) == 1;
}
static_assert(std::ranges::all_of(kTriedSizes, is_one_at_first_step));

std::optional<Tensor> elements_at(const Node& node, std::span<const Operand> first,
                                  std::span<const Operand> second, const Operand& result, double step) {
  std::vector<Operand> tried(first.begin(), first.end());
  for (size_t i = 0; i < tried.size(); ++i) {
    if (have_other_elements(first[i], second[i]))
      tried[i].elements = on_line(*first[i].elements, *second[i].elements, step);
  }
  try {
    const OperatorSchema& schema = find_operator(node.op);
    // As of a list's own shape, which the list's elements do not change.
    if (!schema.elements) {
      const std::vector<Operand> others = infer_results(node, tried);
      return others.size() == 1 && others[0].shape == result.shape ? others[0].elements : std::nullopt;
    }
    return known_elements(schema, node, tried, result);
  } catch (const Error&) {
    return std::nullopt;  // where the operator is not defined
  }
}

bool are_same(const Tensor& a, const Tensor& b, size_t element) {
  const size_t size = dtype_size(a.dtype());
  return std::ranges::equal(a.bytes().subspan(element * size, size), b.bytes().subspan(element * size, size));
}

}  // namespace

bool depends_on_open_sizes(const Node& node, std::span<const Operand> first, std::span<const Operand> second,
                           const Operand& first_result, const Operand& second_result, OpenSizes sizes) {
  if (!first_result.elements || !second_result.elements || first_result.shape != second_result.shape)
    return false;
  if (std::ranges::equal(first, second, std::not_fn(have_other_elements))) return false;
  const Tensor& found = *first_result.elements;
  for (const auto& at : kSteps) {
    const std::optional<Tensor> other = elements_at(node, first, second, first_result, step_at(at, sizes));
    for (size_t i = 0; i < static_cast<size_t>(found.numel()); ++i) {
      if (!are_same(found, *second_result.elements, i)) continue;
      if (!other || !are_same(found, *other, i)) return true;
    }
  }
  return false;
}

bool hides_open_sizes(const Node& node, std::span<const Operand> first, std::span<const Operand> second,
                      const Operand& first_result, const Operand& second_result) {
  const auto are_alike = [](const Operand& a, const Operand& b) {
    return a.shape == b.shape && !have_other_elements(a, b);
  };
  if (first.empty() || std::ranges::equal(first, second, are_alike)) return false;
  const Shape& shape = first_result.shape;
  if (shape == second_result.shape && std::ranges::count(shape, 0) > 0) return true;
  if (find_operator(node.op).find_attribute("stride") == nullptr) return false;
  const Shape& from = first[0].shape;
  if (from.size() != shape.size()) return false;
  for (size_t d = 0; d < from.size(); ++d) {
    if (from[d] != second[0].shape[d] && shape[d] == second_result.shape[d]) return true;
  }
  return false;
}

bool may_cancel(std::span<const Operand> first, std::span<const Operand> second, const Operand& first_result,
                const Operand& second_result) {
  return first_result.elements && second_result.elements && first_result.shape == second_result.shape &&
         !std::ranges::equal(first, second, std::not_fn(have_other_elements));
}

bool OtherSizes::differ(const Graph& graph, const NamedSizes& first, const std::string& value,
                        const Operand& first_result, const Operand& second_result) {
  const Operand* const other = find(graph, first, value);
  if (other == nullptr || !other->elements || other->shape != first_result.shape) return false;
  for (size_t i = 0; i < static_cast<size_t>(other->elements->numel()); ++i) {
    const bool are_alike = are_same(*first_result.elements, *second_result.elements, i);
    if (are_alike && !are_same(*first_result.elements, *other->elements, i)) return true;
  }
  return false;
}

const Operand* OtherSizes::find(const Graph& graph, const NamedSizes& first, const std::string& value) {
  // Small ones leave a remainder for most strides; networks that take multiples only take the larger ones.
  constexpr int64_t kAdded[] = {1, 2, 4, 8, 16, 32};
  for (; tried_ < std::size(kAdded); ++tried_) {
    NamedSizes sizes = first;
    for (auto& [symbol, size] : sizes) size += kAdded[tried_];
    try {
      infer_new_nodes(graph, sizes);
      const auto found = values_.find(value);
      return found == values_.end() ? nullptr : &found->second;
    } catch (const Error&) {
      values_.clear();
      next_ = 0;
    }
  }
  return nullptr;
}

void OtherSizes::infer_new_nodes(const Graph& graph, const NamedSizes& sizes) {
  for (; next_ < graph.nodes().size(); ++next_) {
    const Node& node = graph.nodes()[next_];
    if (const auto type = graph.input_types().find(node.name); type != graph.input_types().end()) {
      values_[node.name] = {type->second.concrete(sizes), Value(), type->second.dtype};
      continue;
    }
    std::vector<Operand> inputs;
    for (const NodeInput& input : node.inputs) {
      inputs.push_back(input.is_constant() ? constant_operand(input.constant)
                                           : values_.at(value_name(input)));
    }
    std::vector<Operand> results = infer_results(node, inputs);
    for (size_t i = 0; i < results.size(); ++i) values_[value_name(node.name, i)] = std::move(results[i]);
  }
}

std::vector<int64_t> sizes_that_give(std::span<const int64_t> wanted, std::span<const Operand> first,
                                     std::span<const Operand> second, const OpenSizes& tried) {
  constexpr double kMostSize = 1 << 24;
  const auto begin = static_cast<double>(tried.first());
  const double step = static_cast<double>(tried.second()) - begin;
  std::vector<int64_t> sizes;
  const auto add = [&](int64_t size, int64_t from, int64_t to) {
    const bool is_batch = from == tried.first_batch() && to == tried.second_batch();
    if (from <= 0 || to <= from || is_batch) return;
    for (const double power : {1., 1. / 2, 1. / 3}) {
      const double start = std::pow(static_cast<double>(from), power);
      const double slope = (std::pow(static_cast<double>(to), power) - start) / step;
      const double found = begin + (std::pow(static_cast<double>(size), power) - start) / slope;
      if (found >= 1 && found <= kMostSize) sizes.push_back(std::llround(found));
    }
  };
  for (size_t i = 0; i < first.size(); ++i) {
    if (first[i].shape.size() != second[i].shape.size()) continue;
    for (size_t d = 0; d < first[i].shape.size(); ++d)
      for (const int64_t size : wanted) add(size, first[i].shape[d], second[i].shape[d]);
  }
  return sizes;
}

}  // namespace detent
