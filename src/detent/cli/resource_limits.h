#pragma once

#include <cstdint>

namespace detent {

/// Address space that libtorch and OpenBLAS take on `threads` threads for a network of any small size: their
/// code, and for each thread a stack, a heap and OpenBLAS's buffer. In bytes.
uint64_t address_space_for_torch(int64_t threads);

/// Throws Error, naming the limit and ways out, where this process could not start `threads`, and
/// `loader_threads` more, of its own.
void check_thread_limit(int64_t threads, int64_t loader_threads);

/// Throws Error, naming the limit and ways out, where this process could not get that address space, or start
/// the threads that libtorch takes for `threads` and `loader_threads` more. To be called before libtorch is
/// loaded: OpenBLAS waits for ever for memory that it cannot get, libtorch for threads that were not started.
void check_resource_limits(int64_t threads, int64_t loader_threads);

}  // namespace detent
