#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nanobind/nanobind.h>

#include "detent/core/tensor.h"
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
  void add_beside_tokens(const nanobind::dict& dict, std::vector<Tensor>& tensors) const;
  std::vector<std::string> names() const;
  [[noreturn]] void refuse_unknown(const nanobind::dict& dict) const;

  std::vector<SampleInput> inputs_;
  std::vector<nanobind::object> keys_;
  std::optional<size_t> tokens_;
};

}  // namespace detent::python
