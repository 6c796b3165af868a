#pragma once

#include <string>
#include <vector>

#include "graph_writer.h"

namespace detent {

/// "" where the tensors are equal, NaN as NaN.
std::string difference(const Tensor& expected, const Tensor& actual);

/// "" where they differ by no more than what is known of the value allows.
std::string difference(const Tensor& expected, const Tensor& actual, const Numbers& numbers);

/// The first difference of the outputs, with the output's name.
std::string difference(const std::vector<Tensor>& expected, const std::vector<Tensor>& actual,
                       const std::vector<GeneratedValue>& outputs, bool exactly);

}  // namespace detent
