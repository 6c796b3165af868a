#pragma once

#include <cstdint>
#include <span>

namespace detent {

/// The counts' sum, which is below 2^32.
uint32_t sum_of_counts(std::span<const uint32_t> counts);

/// Adds `counts`, each below 2^31, to as many `counters` of 16 bits, and leaves in `counts` how often each
/// counter has passed its end. Whether one has.
bool add_counts(std::span<uint32_t> counts, uint16_t* counters);

/// The same in plain loops: for tests and for the last few.
uint32_t sum_of_counts_reference(std::span<const uint32_t> counts);
bool add_counts_reference(std::span<uint32_t> counts, uint16_t* counters);

}  // namespace detent
