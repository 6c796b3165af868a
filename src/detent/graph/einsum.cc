#include "detent/graph/operator_arguments.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "detent/core/error.h"
#include "detent/graph/operators.h"

namespace detent {
namespace {

constexpr std::string_view kEllipsis = "...";

/// "ab,b...->a": what each input and the result is called, dimension by dimension.
struct Equation {
  std::vector<std::string> inputs;
  std::optional<std::string> result;
};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// Letters, and at most one ellipsis.
void expect_term(const std::string& term, const std::string& text) {
  std::string letters = term;
  if (const size_t dots = letters.find(kEllipsis); dots != std::string::npos)
    letters.erase(dots, kEllipsis.size());
  if (!std::ranges::all_of(letters, is_letter))
    fail("attribute \"equation\": got \"{}\", expected letters and at most one ellipsis in \"{}\"", text,
         term);
}

Equation parse(std::string text) {
  std::erase(text, ' ');
  Equation equation;
  const size_t arrow = text.find("->");
  if (arrow != std::string::npos) equation.result = text.substr(arrow + 2);
  const std::string left = text.substr(0, arrow);
  size_t begin = 0;
  for (size_t end = 0; end != std::string::npos; begin = end + 1) {
    end = left.find(',', begin);
    equation.inputs.push_back(left.substr(begin, end == std::string::npos ? end : end - begin));
    expect_term(equation.inputs.back(), text);
  }
  if (equation.result) expect_term(*equation.result, text);
  return equation;
}

bool has_ellipsis(const std::string& term) { return term.find(kEllipsis) != std::string::npos; }

/// The labels of a term whose ellipsis stands for `rank` dimensions.
EinsumLabels labels_of(const std::string& term, size_t rank) {
  EinsumLabels labels;
  for (size_t i = 0; i < term.size(); ++i) {
    if (is_letter(term[i])) {
      labels.push_back(term[i]);
      continue;
    }
    for (size_t d = rank; d > 0; --d) labels.push_back(-static_cast<int>(d));
    i += kEllipsis.size() - 1;
  }
  return labels;
}

EinsumLabels input_labels(const std::string& term, const Shape& shape) {
  const size_t letters = term.size() - (has_ellipsis(term) ? kEllipsis.size() : 0);
  const bool fits = has_ellipsis(term) ? letters <= shape.size() : letters == shape.size();
  if (!fits) fail("got a tensor of shape {} for \"{}\"", shape_text(shape), term);
  return labels_of(term, shape.size() - letters);
}

/// The ellipsis, which is of that rank, then the letters that occur once.
EinsumLabels implied_result(const EinsumDims& dims, size_t rank) {
  std::map<int, int> counts;
  for (const EinsumLabels& labels : dims.inputs) {
    for (const int label : labels) ++counts[label];
  }
  EinsumLabels result = labels_of(std::string(kEllipsis), rank);
  for (const auto& [label, count] : counts) {
    if (label > 0 && count == 1) result.push_back(label);
  }
  return result;
}

EinsumLabels given_result(const EinsumDims& dims, const std::string& term, size_t rank) {
  for (const char letter : term) {
    if (!is_letter(letter) || (dims.sizes.contains(letter) && std::ranges::count(term, letter) == 1))
      continue;
    fail("attribute \"equation\": got '{}' in the result \"{}\", expected letters of the inputs, once each",
         letter, term);
  }
  if (rank > 0 && !has_ellipsis(term))
    fail("attribute \"equation\": the result \"{}\" has no ellipsis, as the inputs have", term);
  return labels_of(term, rank);
}

}  // namespace

EinsumDims einsum_dims(const std::string& equation, std::span<const Shape> inputs) {
  const Equation terms = parse(equation);
  if (terms.inputs.size() != inputs.size())
    fail("attribute \"equation\": got \"{}\" for {} inputs", equation, inputs.size());
  EinsumDims dims;
  for (size_t i = 0; i < inputs.size(); ++i) {
    dims.inputs.push_back(input_labels(terms.inputs[i], inputs[i]));
    for (size_t d = 0; d < inputs[i].size(); ++d) {
      const auto [known, is_new] = dims.sizes.emplace(dims.inputs[i][d], inputs[i][d]);
      if (!is_new) known->second = broadcast_shapes({known->second}, {inputs[i][d]}).front();
    }
  }
  const auto rank =
      static_cast<size_t>(std::ranges::count_if(dims.sizes, [](const auto& size) { return size.first < 0; }));
  dims.result = terms.result ? given_result(dims, *terms.result, rank) : implied_result(dims, rank);
  return dims;
}

}  // namespace detent
