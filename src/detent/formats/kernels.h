#pragma once

#include <cstddef>
#include <cstdint>

#include "detent/formats/all.h"
#include "detent/formats/group.h"

namespace detent {

/// Rounds the elements [begin, end) of a tensor. `input` and `output` point to element `begin` and may be
/// equal. `stream` writes past the caches: for outputs larger than
/// they are. The caller holds a DefaultFloatEnvironment.
void simulate_range(const GroupParameters& parameters, const Grouping& grouping, const float* input,
                    float* output, int64_t begin, int64_t end, bool stream);

/// Outputs of this size are written past the caches, as memcpy does: reading their lines first would cost a
/// third of the memory traffic, and they would not stay cached anyhow.
constexpr size_t kStreamBytes = size_t{32} << 20;

/// Copies past the caches. Other threads may only read `output` after flush_stream on the thread that wrote.
void stream_range(const float* values, float* output, int64_t count);
void flush_stream();

/// Name of the instruction set that the kernels run on: "AVX3", "SSE4", ...
const char* kernel_target();

}  // namespace detent
