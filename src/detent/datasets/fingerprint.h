#pragma once

#include <cstdint>

#include "detent/datasets/dataset.h"

namespace detent {

/// XXH64 of the shape, the number, the labels and the values of samples, as a network sees them in
/// evaluation: of all samples where they have at most 2^24 values together, else of evenly spaced ones with
/// as many, the first and the last among them. Equal data give equal fingerprints on every machine.
uint64_t data_fingerprint(const Dataset& dataset);

}  // namespace detent
