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

}  // namespace detent
