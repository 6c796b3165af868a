#pragma once

#include <cstdint>

#include "detent/language/decoder.h"

namespace detent {

/// Says, before decoders that are loaded begin with their work, how much memory the process takes at most:
/// what is resident now, and the caches and values of `load`, or what loading took. Returns these bytes.
int64_t announce_memory(const Decoder& decoder, const DecoderLoad& load);

}  // namespace detent
