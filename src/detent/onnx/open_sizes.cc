#include "detent/onnx/open_sizes.h"

#include <algorithm>
#include <array>
#include <functional>
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

/// Where to look on the line: a whole number and parts of size, so that batches are whole. The first is where
/// every open size is 1; sizes of all of them have many remainders.
constexpr std::array<std::pair<double, double>, 8> kSteps = {
    {{-2, 2}, {-1, 0}, {1, 1}, {1, 2}, {2, 5}, {7, 18}, {1000, 3}, {1'000'003, 0}}};

constexpr double step_at(std::pair<double, double> at, OpenSizes sizes) {
  return at.first + at.second / static_cast<double>(sizes.size);
}
constexpr bool is_one_at_first_step(OpenSizes sizes) {
  const double step = step_at(kSteps[0], sizes);
  const auto at_step = [&](int64_t first, int64_t second) {
    return static_cast<double>(first) + step * static_cast<double>(second - first);
  };
  return at_step(sizes.size, sizes.size / 2 * 3) == 1 && at_step(2 * sizes.size - 1, 3 * sizes.size - 1) == 1;
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
    return known_elements(find_operator(node.op), node, tried, result);
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

}  // namespace detent
