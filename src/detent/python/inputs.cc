#include "detent/python/inputs.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "detent/core/error.h"
#include "detent/core/error_fields.h"
#include "detent/datasets/datasets.h"
#include "detent/python/arrays.h"

namespace nb = nanobind;

namespace detent::python {
namespace {

std::string keys_text(const nb::dict& dict) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : dict) keys.push_back(nb::cast<std::string>(nb::str(key)));
  return keys.empty() ? "no inputs" : fmt::format("{}", fmt::join(keys, ", "));
}

}  // namespace

InputReader::InputReader(const Network& network) : inputs_(network.sample_inputs()) {
  for (const SampleInput& input : inputs_) {
    if (input.name == kTokensName) tokens_ = keys_.size();
    keys_.push_back(nb::cast(input.name));
  }
}

std::vector<Tensor> InputReader::tensors_of(nb::handle given) const {
  const nb::dict dict = by_name(given);
  std::vector<Tensor> tensors(inputs_.size());
  size_t found = 0;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!dict.contains(keys_[i])) continue;
    tensors[i] = tensor_of(nb::object(dict[keys_[i]]), inputs_[i].dtype, "input " + inputs_[i].name);
    ++found;
  }
  if (found != inputs_.size()) add_beside_tokens(dict, tensors);
  if (dict.size() != found) refuse_unknown(dict);
  return tensors;
}

nb::dict InputReader::by_name(nb::handle given) const {
  if (nb::isinstance<nb::dict>(given)) return nb::borrow<nb::dict>(given);
  nb::dict dict;
  if (nb::hasattr(given, "to_numpy"))  // a data frame
    return by_name(nb::module_::import_("detent._samples").attr("frame_inputs")(given, names()));
  if (nb::hasattr(given, "keys")) {  // another mapping, such as what a tokenizer gives
    return nb::cast<nb::dict>(nb::module_::import_("builtins").attr("dict")(given));
  }
  if (inputs_.size() == 1 || tokens_) {
    dict[keys_[tokens_.value_or(0)]] = given;
    return dict;
  }
  const bool is_listing = nb::isinstance<nb::tuple>(given) || nb::isinstance<nb::list>(given);
  if (!is_listing || nb::len(given) != keys_.size())
    throw nb::type_error(fmt::format("got {}, expected a tuple or a dict of the inputs {}", type_text(given),
                                     fmt::join(names(), ", "))
                             .c_str());
  for (size_t i = 0; i < keys_.size(); ++i) dict[keys_[i]] = given[i];
  return dict;
}

void InputReader::add_beside_tokens(const nb::dict& dict, std::vector<Tensor>& tensors) const {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (dict.contains(keys_[i])) continue;
    auto given = tokens_ && dict.contains(keys_[*tokens_]) ? beside_tokens(inputs_[i].name, tensors[*tokens_])
                                                           : std::nullopt;
    if (!given) fail("input {} is missing: got {}", inputs_[i].name, keys_text(dict));
    tensors[i] = std::move(*given);
  }
}

std::vector<std::string> InputReader::names() const {
  std::vector<std::string> result;
  for (const SampleInput& input : inputs_) result.push_back(input.name);
  return result;
}

void InputReader::refuse_unknown(const nb::dict& dict) const {
  const std::vector<std::string> known = names();
  for (const auto& [key, value] : dict) {
    const auto name = nb::cast<std::string>(nb::str(key));
    if (std::ranges::count(known, name) == 0) fail_unknown("", "input", name, known);
  }
  fail("got {} inputs, expected {}", dict.size(), inputs_.size());
}

}  // namespace detent::python
