#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nanobind/nanobind.h>

#include "detent/core/tensor.h"
#include "detent/datasets/collected_samples.h"
#include "detent/datasets/dataset.h"
#include "detent/python/network.h"

namespace detent::python {

/// Takes a network's inputs out of what a user gives: a dict by name, or the array of the only input, or of
/// the tokens of a language model, beside which its other inputs may be left out.
class InputReader {
 public:
  explicit InputReader(const Network& network);

  /// In the order in which the network takes them. Throws TypeError and Error on what does not fit.
  std::vector<Tensor> tensors_of(nanobind::handle given) const;

 private:
  /// A dict as it is; else of the only input, of inputs in order, or of the columns of a data frame.
  nanobind::dict by_name(nanobind::handle given) const;
  void add_beside_tokens(const nanobind::dict& dict, std::vector<Tensor>& tensors) const;
  std::vector<std::string> names() const;
  [[noreturn]] void refuse_unknown(const nanobind::dict& dict) const;

  std::vector<SampleInput> inputs_;
  std::vector<nanobind::object> keys_;
  std::optional<size_t> tokens_;
};

/// Samples that Python gives one batch after the other, and then a data set of them.
class Samples {
 public:
  Samples(const Network& network, const std::string& source);

  void add(const nanobind::list& arrays, nanobind::handle labels);
  int64_t size() const { return dataset_ ? dataset_->size() : collected_.size(); }
  const Dataset& dataset() { return *shared(); }
  std::shared_ptr<const Dataset> shared();
  /// Throws Error where they have no labels.
  const Dataset& labelled();

 private:
  /// None stands for inputs beside tokens.
  std::vector<Tensor> tensors_of(const nanobind::list& arrays, const std::string& where) const;
  [[noreturn]] void refuse_inputs(const nanobind::list& arrays) const;

  std::vector<SampleInput> inputs_;
  int64_t class_count_;
  std::string source_;
  CollectedSamples collected_;
  std::shared_ptr<const Dataset> dataset_;
};

}  // namespace detent::python
