#include "detent/cli/torch_half.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "detent/cli/resource_limits.h"
#include "detent/core/error.h"
#include "detent/core/parallel.h"

namespace detent {
namespace {

constexpr const char* kLibrary = "libdetent_torch.so";

std::vector<std::filesystem::path> candidate_paths() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) fail("cannot find the program's own path: {}", error.message());
  const std::filesystem::path folder = program.parent_path();
  return {folder / kLibrary, (folder / "../lib/detent" / kLibrary).lexically_normal()};
}

std::optional<std::filesystem::path> library_path() {
  for (const std::filesystem::path& path : candidate_paths()) {
    if (std::filesystem::exists(path)) return path;
  }
  return std::nullopt;
}

/// What OpenMP and OpenBLAS read once, when they are loaded.
void set_thread_environment(const std::optional<int64_t>& num_threads) {
  // Threads that spin while they wait starve the others where cores are shared.
  setenv("GOMP_SPINCOUNT", "0", 0);
  if (!num_threads) return;
  const std::string count = std::to_string(*num_threads);
  setenv("OMP_NUM_THREADS", count.c_str(), 1);
  setenv("OPENBLAS_NUM_THREADS", count.c_str(), 1);
}

/// The library stays loaded until the program ends.
template <class Function>
Function* load_function(const std::filesystem::path& library, const char* symbol) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) fail("cannot load the libtorch half of detent: {}", dlerror());
  void* address = dlsym(handle, symbol);
  if (address == nullptr) fail("{} is of another version of detent: {}", library.string(), dlerror());
  return reinterpret_cast<Function*>(address);
}

}  // namespace

void run_torch_command(const TorchCommand& command) {
  const std::optional<std::filesystem::path> library = library_path();
  if (!library) {
    fail(
        "`detent {}` needs the libtorch half of detent, and {} does not exist: this build was configured "
        "without "
        "DETENT_TORCH (configure with -DDETENT_TORCH=ON)",
        command.name, candidate_paths().back().string());
  }
  check_resource_limits(command.options.num_threads.value_or(thread_count()), command.options.num_workers);
  set_thread_environment(command.options.num_threads);
  load_function<decltype(detent_torch_run)>(*library, "detent_torch_run")(command);
}

}  // namespace detent
