#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>

// NOLINTBEGIN(bugprone-reserved-identifier): names of compilers
#if defined(__has_feature)  // clang; GCC defines the macros
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#if __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__ 1
#endif
#endif
// NOLINTEND(bugprone-reserved-identifier)

namespace detent {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
/// They watch what malloc gives, reserve terabytes of address space and handle signals of faults.
inline constexpr bool kSanitizersTakeMemory = true;
#else
inline constexpr bool kSanitizersTakeMemory = false;
#endif

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

}  // namespace detent
