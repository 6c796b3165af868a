#include "detent/core/process_resources.h"

#include <malloc.h>
#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include "detent/core/error.h"
#include "detent/core/log.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

int affine_processors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

std::optional<double> number_in(const fs::path& path) {
  double number = 0;
  std::ifstream file(path);
  return file >> number ? std::optional(number) : std::nullopt;
}

/// The quota of one folder of the hierarchy in processors; "max" of version 2 and -1 of version 1 are none.
std::optional<double> quota_of(const fs::path& folder, bool is_version_2) {
  std::optional<double> quota;
  std::optional<double> period;
  if (is_version_2) {
    double numbers[2] = {};
    std::ifstream file(folder / "cpu.max");
    if (file >> numbers[0] >> numbers[1]) quota = numbers[0], period = numbers[1];
  } else {
    quota = number_in(folder / "cpu.cfs_quota_us");
    period = number_in(folder / "cpu.cfs_period_us");
  }
  if (!quota || !period || !(*quota > 0) || !(*period > 0)) return std::nullopt;
  return *quota / *period;
}

/// Whether `controllers` ("cpu,cpuacct") has the one of processor time.
bool has_cpu(const std::string& controllers) {
  return ("," + controllers + ",").find(",cpu,") != std::string::npos;
}

}  // namespace

int quota_processors(const fs::path& groups, const fs::path& root) {
  std::optional<double> least;
  std::ifstream file(groups);
  for (std::string line; std::getline(file, line);) {  // "4:cpu,cpuacct:/docker/x" or "0::/docker/x"
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool is_version_2 = controllers.empty();
    if (!is_version_2 && !has_cpu(controllers)) continue;
    const fs::path top = is_version_2 ? root : root / controllers;
    fs::path group = fs::path(line.substr(second + 1)).relative_path();
    while (true) {
      const std::optional<double> quota = quota_of(top / group, is_version_2);
      if (quota) least = std::min(*quota, least.value_or(*quota));
      if (group.empty()) break;
      group = group.parent_path();
    }
  }
  constexpr double kMost = 1 << 20;
  return least ? static_cast<int>(std::ceil(std::min(*least, kMost))) : 0;
}

void check_processor() {
#ifdef DETENT_KERNELS_NEED
  if (__builtin_cpu_supports(DETENT_KERNELS_NEED)) return;
  fail(
      "this build has kernels for processors like the one that compiled it, with {}, which this one lacks: "
      "`make build SIMD=all` compiles those of every x86-64",
      DETENT_KERNELS_NEED);
#endif
}

int processor_count() {
  static const int count = [] {
    const int affine = affine_processors();
    const int quota = quota_processors("/proc/self/cgroup", "/sys/fs/cgroup");
    return quota > 0 ? std::min(affine, quota) : affine;
  }();
  return count;
}

int usable_thread_count(int64_t wanted) {
  const int count = processor_count();
  if (wanted <= count) return static_cast<int>(wanted);
  log_warning("--num-threads {}: {} threads compute, as there {} {} processor{}", wanted, count,
              count == 1 ? "is" : "are", count, count == 1 ? "" : "s");
  return count;
}

ResidentMemory resident_memory() {
  constexpr int64_t kKibi = 1024;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  ResidentMemory memory;
  memory.most = int64_t{usage.ru_maxrss} * kKibi;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) memory.now = std::stoll(line.substr(6)) * kKibi;
  }
  // Where there is no such file, as much as ever.
  if (memory.now == 0) memory.now = memory.most;
  memory.most = std::max(memory.most, memory.now);
  return memory;
}

void keep_vectors_out_of_heap([[maybe_unused]] int bytes) {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, bytes);
#endif
}

}  // namespace detent
