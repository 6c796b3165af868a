#pragma once

#include <cstddef>
#include <cstdint>

namespace detent {

/// Of the element `count` behind `from`, to be fetched ahead: it may lie behind the array, where arithmetic
/// on pointers may not go.
template <class T>
const T* address_behind(const T* from, size_t count) {
  return reinterpret_cast<const T*>(reinterpret_cast<uintptr_t>(from) + count * sizeof(T));
}

}  // namespace detent
