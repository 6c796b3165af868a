#include "detent/python/inputs.h"

#include <filesystem>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "detent/core/error.h"
#include "detent/datasets/datasets.h"
#include "detent/python/arrays.h"
#include "detent/python/work.h"

namespace nb = nanobind;

namespace detent::python {
namespace {

Tensor labels_of(nb::handle given, const std::string& what) {
  Tensor labels = tensor_of(given, DType::kInt64, what);
  const bool is_column = labels.shape().size() == 2 && labels.dim(1) == 1;
  if (labels.shape().size() > 1 && !is_column) {
    throw nb::type_error(
        fmt::format("{}: got an array of shape {}, expected one integer a sample (the position "
                    "of its class: argmax(axis=1) of one-hot rows)",
                    what, shape_text(labels.shape()))
            .c_str());
  }
  return labels;
}

}  // namespace

Samples::Samples(const Network& network, const std::string& source)
    : inputs_(network.sample_inputs()),
      class_count_(network.class_count()),
      source_(source),
      collected_(inputs_, std::filesystem::temp_directory_path(), source, network.sample_rows()) {}

void Samples::add(const nb::list& arrays, nb::handle labels) {
  const std::string where = fmt::format("{}: sample {}", source_, collected_.size());
  if (arrays.size() != inputs_.size())
    throw nb::type_error(
        fmt::format("{}: got {} inputs, expected {}", where, arrays.size(), inputs_.size()).c_str());
  const std::vector<Tensor> batch = tensors_of(arrays, where);
  Tensor numbers;
  if (!labels.is_none()) numbers = labels_of(labels, where + ", labels");
  without_lock([&] {
    collected_.add(batch,
                   labels.is_none() ? std::span<const int64_t>() : std::as_const(numbers).values<int64_t>());
    return true;
  });
}

std::shared_ptr<const Dataset> Samples::shared() {
  if (dataset_ == nullptr) dataset_ = collected_.finish(class_count_);
  return dataset_;
}

const Dataset& Samples::labelled() {
  if (!dataset().has_labels())
    fail("{}: got samples without labels, expected pairs of inputs and labels", source_);
  return dataset();
}

std::vector<Tensor> Samples::tensors_of(const nb::list& arrays, const std::string& where) const {
  std::vector<Tensor> batch(inputs_.size());
  const Tensor* tokens = nullptr;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const nb::object array = arrays[i];
    if (array.is_none()) continue;
    batch[i] = tensor_of(array, inputs_[i].dtype, fmt::format("{}, input {}", where, inputs_[i].name));
    if (inputs_[i].name == kTokensName) tokens = &batch[i];
  }
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!nb::object(arrays[i]).is_none()) continue;
    auto given = tokens == nullptr ? std::nullopt : beside_tokens(inputs_[i].name, *tokens);
    if (!given) refuse_inputs(arrays);
    batch[i] = std::move(*given);
  }
  return batch;
}

void Samples::refuse_inputs(const nb::list& arrays) const {
  std::vector<std::string> known;
  std::vector<std::string> got;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    known.push_back(inputs_[i].name);
    if (!nb::object(arrays[i]).is_none()) got.push_back(inputs_[i].name);
  }
  throw nb::type_error(fmt::format("{}: got the inputs {}, expected {}", source_,
                                   got.empty() ? "nothing" : fmt::format("{}", fmt::join(got, ", ")),
                                   fmt::join(known, ", "))
                           .c_str());
}

}  // namespace detent::python
