#pragma once

#include <cstdint>

#include "detent/core/value.h"
#include "detent/datasets/dataset.h"
#include "detent/graph/graph.h"
#include "detent/language/decoder.h"

namespace detent {

/// Seconds that the fast engine takes for a sample, the least of some runs; sizes that the network leaves
/// open have their usual values.
double measured_latency(const Graph& graph);

/// Says, before decoders that are loaded begin with their work, how much memory the process takes at most:
/// what is resident now, and the caches and values of `load`, or what loading took. Returns these bytes.
int64_t announce_memory(const Decoder& decoder, const DecoderLoad& load);

/// Says, before decoders that are loaded begin with their work, where they get more tokens than the network
/// was made for: `wanted` at most, of which `given` for sure. Throws Error where the network has no positions
/// for those.
void announce_length(const Decoder& decoder, int64_t given, int64_t wanted);

/// Says, before a network is quantized by these passes (quantize_passes.h), how much memory the process takes
/// at most until the result is written: what is resident now, and what passes, analysis and files need
/// besides. Returns these bytes. Of other networks than language models it says nothing, and returns 0.
int64_t announce_quantization_memory(const Graph& network, const Table& passes, const Dataset& calibration);

}  // namespace detent
