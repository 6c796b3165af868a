#include "detent/cli/torch_command.h"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "detent/cli/build_identity.h"
#include "detent/cli/network/commands.h"
#include "detent/cli/network/session.h"
#include "detent/core/error.h"
#include "detent/core/log.h"
#include "detent/core/parallel.h"
#include "detent/core/process_resources.h"
#include "detent/workers/socket_group.h"

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

/// Sets variables that OpenMP and OpenBLAS read once, when they are loaded.
void set_thread_environment(int threads, bool is_asked_for) {
  // Threads that spin while they wait starve the others where cores are shared.
  setenv("GOMP_SPINCOUNT", "0", 0);
  const std::string count = std::to_string(threads);
  for (const char* variable : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"})
    setenv(variable, count.c_str(), is_asked_for ? 1 : 0);
}

/// The half that is loaded; it stays so until the program ends.
class TorchHalf {
 public:
  explicit TorchHalf(std::filesystem::path path) : path_(std::move(path)) {
    handle_ = dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr) fail("cannot load the libtorch half of detent: {}", dlerror());
    const std::string identity = function<decltype(detent_torch_build)>("detent_torch_build")();
    if (identity == build_identity()) return;
    fail("{} is of another build of detent ({:.12}, the program is of {:.12}): install both from one build",
         path_.string(), identity, build_identity());
  }

  template <class Function>
  Function* function(const char* symbol) const {
    void* address = dlsym(handle_, symbol);
    if (address == nullptr) fail("{} is of another version of detent: {}", path_.string(), dlerror());
    return reinterpret_cast<Function*>(address);
  }

 private:
  std::filesystem::path path_;
  void* handle_ = nullptr;
};

/// The workers that a launcher started, once they agree on what to do; nullptr without a launcher.
std::unique_ptr<SocketGroup> join_workers(const TorchCommand& command) {
  if (!command.workers) return nullptr;
  const std::chrono::seconds timeout(command.options.worker_timeout);
  auto group = std::make_unique<SocketGroup>(*command.workers, timeout);
  if (group->rank() != 0) silence_worker();
  check_workers_agree_on_settings(command, *group);
  return group;
}

}  // namespace

bool has_training() { return library_path().has_value(); }

void run_command(const TorchCommand& command) {
  if (!is_network_command(command)) return run_torch_command(command);
  const RunOptions& options = command.options;
  set_up_logging(options.log_level);
  if (options.num_threads) set_thread_count(usable_thread_count(*options.num_threads));
  check_thread_limit(thread_count(), options.num_workers);
  default_generator() = MersenneTwister(static_cast<uint64_t>(options.seed));
  const std::unique_ptr<SocketGroup> launched = join_workers(command);
  ProcessGroup& group = launched ? static_cast<ProcessGroup&>(*launched) : single_process();
  run_network_command(command, group);
  warn_of_broken_images();
}

void run_torch_command(const TorchCommand& command) {
  const std::optional<std::filesystem::path> library = library_path();
  if (!library) {
    fail(
        "`detent {}` needs libtorch, and {} does not exist: install the Debian package detent-training, or "
        "build with libtorch (make build)",
        command.name, candidate_paths().back().string());
  }
  const std::optional<int64_t>& wanted = command.options.num_threads;
  const auto threads =
      static_cast<int>(std::min<int64_t>(wanted.value_or(thread_count()), processor_count()));
  check_resource_limits(threads, command.options.num_workers);
  set_thread_environment(threads, wanted.has_value());
  TorchCommand with_roles = command;
  with_roles.file_roles = FileRoles::current();
  set_up_logging(command.options.log_level);
  const std::unique_ptr<SocketGroup> launched = join_workers(command);
  if (launched) with_roles.meeting = launched->table();
  TorchHalf(*library).function<decltype(detent_torch_run)>("detent_torch_run")(with_roles);
}

}  // namespace detent
