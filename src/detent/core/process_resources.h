#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>

namespace detent {

/// Processors available to this process: its affinity mask, limited by the CPU quota of its control groups
/// (containers), at least 1.
int processor_count();

/// Throws Error where this build's kernels use instructions that the processor lacks (DETENT_SIMD=native, on
/// another machine). For programs and libraries to call before all else.
void check_processor();

/// The CPU quota of the control groups in the file `groups` (/proc/self/cgroup) in processors, rounded up:
/// the smallest on the way up to `root` (/sys/fs/cgroup), of version 2 or 1; 0 where there is none.
int quota_processors(const std::filesystem::path& groups, const std::filesystem::path& root);

/// Threads to use if `wanted` are requested: no more than processors. Warns if these are fewer.
int usable_thread_count(int64_t wanted);

/// Resident bytes of this process, mapped files included.
struct ResidentMemory {
  int64_t now = 0;
  int64_t most = 0;  // since it began
};
ResidentMemory resident_memory();

/// Returns vectors of at least `bytes` to the system when freed; glibc's dynamic threshold would keep and
/// fragment them. Process-wide: for programs, not libraries.
void keep_vectors_out_of_heap(int bytes);

// Memory of large tensors: pages of its own. malloc puts what grows and goes into one heap, where small
// blocks that stay keep it resident: twice as much as was in use. The last blocks that were given back are
// kept for tensors of about their size, as new pages cost 0.2 ms a MiB.

constexpr size_t kLargeBlock = size_t{1} << 20;

/// At least `bytes` of uninitialized memory, aligned to pages; nullptr where the system has none.
/// Thread-safe.
std::shared_ptr<std::byte> large_block(size_t bytes);

struct LargeBlockBytes {
  int64_t used = 0;
  int64_t kept = 0;  // for later ones
  int64_t most = 0;  // used at once, since the last reset_most_large_block_bytes
};
LargeBlockBytes large_block_bytes();
void reset_most_large_block_bytes();

}  // namespace detent
