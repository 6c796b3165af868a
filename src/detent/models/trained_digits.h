#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "detent/graph/graph.h"

namespace detent {

constexpr int kTrainedDigits = 5;

/// digits_cnn, trained for 12 epochs on four fifths of the digits (datasets/datasets.h): all but those whose
/// number modulo 5 is `number`. 0 <= number < kTrainedDigits. Embedded from data/trained_digits.f32, which
/// data/README.md says how to make anew.
Graph trained_digits_cnn(int number);

/// One network of that file: parameters and running statistics in float32, in the order of the
/// state_dict.
std::vector<std::byte> trained_digits_bytes(const Graph& graph);

}  // namespace detent
