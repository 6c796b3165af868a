#pragma once

#include <malloc.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>

#include "detent/core/block_cache.h"
#include "detent/core/process_resources.h"

// Replaces malloc by one that counts: for one source file of a program.

#if defined(__SANITIZE_ADDRESS__)
// As in sanitizer/allocator_interface.h, which GCC does not come with.
extern "C" int __sanitizer_install_malloc_and_free_hooks(  // NOLINT(bugprone-reserved-identifier)
    void (*malloc_hook)(const volatile void*, size_t), void (*free_hook)(const volatile void*));
#endif

namespace detent {

/// Bytes of live allocations, as the allocator rounds them, and of large tensors.
class Memory {
 public:
  static void add(const void* data) {
    if (data == nullptr) return;
    const auto now = live_ += static_cast<int64_t>(malloc_usable_size(const_cast<void*>(data)));
    if (now > peak_) peak_ = now;
  }
  static void remove(const void* data) {
    if (data != nullptr) live_ -= static_cast<int64_t>(malloc_usable_size(const_cast<void*>(data)));
  }
  static int64_t live() { return live_ + static_cast<int64_t>(tensor_blocks().bytes().in_use); }
  /// At least the most live bytes since the last `restart`.
  static int64_t peak() { return peak_ + static_cast<int64_t>(tensor_blocks().bytes().most_in_use); }
  static void restart() {
    peak_ = live_.load();
    tensor_blocks().restart_most_in_use();
  }

 private:
  static inline std::atomic<int64_t> live_ = 0;
  static inline std::atomic<int64_t> peak_ = 0;
};

}  // namespace detent

#if defined(__SANITIZE_ADDRESS__)
namespace {
[[maybe_unused]] const int hooks = __sanitizer_install_malloc_and_free_hooks(
    [](const volatile void* data, size_t) { detent::Memory::add(const_cast<const void*>(data)); },
    [](const volatile void* data) { detent::Memory::remove(const_cast<const void*>(data)); });
}  // namespace
#else
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
void __libc_free(void*);

void* malloc(size_t size) {
  void* data = __libc_malloc(size);
  detent::Memory::add(data);
  return data;
}
void* calloc(size_t count, size_t size) {
  void* data = __libc_calloc(count, size);
  detent::Memory::add(data);
  return data;
}
void* realloc(void* old, size_t size) {
  detent::Memory::remove(old);
  void* data = __libc_realloc(old, size);
  detent::Memory::add(data);
  return data;
}
void* aligned_alloc(size_t alignment, size_t size) {
  void* data = __libc_memalign(alignment, size);
  detent::Memory::add(data);
  return data;
}
void free(void* data) {
  detent::Memory::remove(data);
  __libc_free(data);
}
}
#endif
