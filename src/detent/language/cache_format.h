#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "detent/graph/graph.h"
#include "detent/language/cache_codec.h"
#include "detent/language/cached_tensor.h"

namespace detent {

/// An element format of at most 8 bits for the keys and values that a decoder keeps: "int8",
/// "scaled:element=fp8_e4m3fn". Throws Error, beginning with `where`, on others, and on one that says itself
/// what shares a scale.
Format parse_cache_format(std::string_view text, const std::string& where);

/// Rounds keys and values of a network of build_language_graph before they are kept, each token's part of a
/// head with parameters that follow from it alone. Throws Error where the network has none, or rounds them
/// already.
///
///     key -> permute -> key_cache        key -> permute (data_in_0: int8, group) -> key_cache
void quantize_cache(Graph& graph, const Format& format);

/// How a cache can keep what such a quantizer has rounded: of [1, tokens, heads, size], an operand with this
/// spec. Null where it is none of quantize_cache.
std::shared_ptr<const CacheCodec> cache_codec(const QuantSpec& spec, int64_t size);

}  // namespace detent
