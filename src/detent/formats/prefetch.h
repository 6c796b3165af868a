#pragma once

#include <cstddef>
#include <cstdint>

namespace detent {

/// Fetches the cache line `bytes` behind `from`, if there is one: the address may lie outside of the array,
/// where a pointer may not be formed.
inline void prefetch_behind(const void* from, size_t bytes) {
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(from) + bytes));
}

}  // namespace detent
