#include <algorithm>
#include <map>

#include "detent/graph/operators/families.h"

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

/// The sizes that letters, and the ellipsis, stand for.
class Sizes {
 public:
  void add(const std::string& term, const Shape& shape) {
    const size_t dots = term.find(kEllipsis);
    const size_t letters = term.size() - (dots == std::string::npos ? 0 : kEllipsis.size());
    const bool fits = dots == std::string::npos ? letters == shape.size() : letters <= shape.size();
    if (!fits) fail("got a tensor of shape {} for \"{}\"", shape_text(shape), term);
    size_t dim = 0;
    for (size_t i = 0; i < term.size(); ++i) {
      if (i != dots) {
        add(term[i], shape[dim++]);
        continue;
      }
      const auto first = shape.begin() + static_cast<int64_t>(dim);
      dim += shape.size() - letters;
      ellipsis_ = broadcast_shapes(ellipsis_, {first, shape.begin() + static_cast<int64_t>(dim)});
      i += kEllipsis.size() - 1;
    }
  }

  /// Without a result: the ellipsis, then the letters that occur once, in the order of the alphabet.
  Shape result(const std::optional<std::string>& term) const {
    Shape shape;
    if (!term) {
      shape = ellipsis_;
      for (const auto& [letter, size] : sizes_) {
        if (counts_.at(letter) == 1) shape.push_back(size);
      }
      return shape;
    }
    for (size_t i = 0; i < term->size(); ++i) {
      const char letter = (*term)[i];
      if (letter == kEllipsis[0]) {
        shape.insert(shape.end(), ellipsis_.begin(), ellipsis_.end());
        i += kEllipsis.size() - 1;
        continue;
      }
      const auto size = sizes_.find(letter);
      if (size == sizes_.end() || std::ranges::count(*term, letter) != 1)
        fail(
            "attribute \"equation\": got '{}' in the result \"{}\", expected letters of the inputs, once "
            "each",
            letter, *term);
      shape.push_back(size->second);
    }
    if (!ellipsis_.empty() && term->find(kEllipsis) == std::string::npos)
      fail("attribute \"equation\": the result \"{}\" has no ellipsis, as the inputs have", *term);
    return shape;
  }

 private:
  void add(char letter, int64_t size) {
    ++counts_[letter];
    const auto [known, is_new] = sizes_.emplace(letter, size);
    if (!is_new) known->second = broadcast_shapes({known->second}, {size}).front();
  }

  std::map<char, int64_t> sizes_;
  std::map<char, int64_t> counts_;
  Shape ellipsis_;
};

Operand infer_einsum(const Node& node, std::span<const Operand> inputs) {
  const Equation equation = parse(text_attribute(node, "equation"));
  if (equation.inputs.size() != inputs.size())
    fail("attribute \"equation\": got \"{}\" for {} inputs", text_attribute(node, "equation"), inputs.size());
  Sizes sizes;
  for (size_t i = 0; i < inputs.size(); ++i) sizes.add(equation.inputs[i], tensor_shape(inputs, i));
  return {sizes.result(equation.result), Value()};
}

}  // namespace

std::vector<OperatorSchema> einsum_operators() {
  constexpr size_t kMostInputs = 64;
  return {
      {.name = "einsum",
       .help =
           "sums of products over the dimensions whose letters the result has not, in Einstein's notation",
       .max_inputs = kMostInputs,
       .attributes = {{"equation", AttributeKind::kText, Value(), "a letter a dimension: \"bij,bjk->bik\""}},
       .infer = infer_einsum,
       .takes_open_sizes = true,
       .quantizable = true}};
}

}  // namespace detent
