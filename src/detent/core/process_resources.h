#pragma once

#include <cstdint>
#include <filesystem>

namespace detent {

/// Processors that this process may use: those of its affinity mask, but no more than the CPU quota of its
/// control groups pays for (a container's limit), at least 1.
int processor_count();

/// The CPU quota of the control groups in the file `groups` (/proc/self/cgroup) in processors, rounded up:
/// the smallest on the way up to `root` (/sys/fs/cgroup), of version 2 or 1; 0 where there is none.
int quota_processors(const std::filesystem::path& groups, const std::filesystem::path& root);

/// The threads to compute with where `wanted` are asked for: more than processors take turns and wait for
/// each other. Warns where these are fewer.
int usable_thread_count(int64_t wanted);

/// Bytes of this process that are in memory, those of mapped files among them.
struct ResidentMemory {
  int64_t now = 0;
  int64_t most = 0;  // since it began
};
ResidentMemory resident_memory();

/// Vectors from `bytes` on go back to the system as soon as they are freed. glibc would keep more of them the
/// larger those are that were freed, and what stays would lie between them. For the whole process: a choice
/// of programs, not of libraries.
void keep_vectors_out_of_heap(int bytes);

}  // namespace detent
