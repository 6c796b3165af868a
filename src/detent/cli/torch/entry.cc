#include <memory>

#include <ATen/Parallel.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <sys/resource.h>

#include "detent/autograd/initialize.h"
#include "detent/autograd/tensor_memory.h"
#include "detent/cli/build_identity.h"
#include "detent/cli/network/commands.h"
#include "detent/cli/network/session.h"
#include "detent/cli/torch/commands.h"
#include "detent/core/error.h"
#include "detent/core/log.h"
#include "detent/core/parallel.h"
#include "detent/core/process_resources.h"
#include "detent/files/open_files.h"
#include "detent/training/epoch_batches.h"
#include "detent/training/gloo_group.h"

namespace detent {
namespace {

/// OpenBLAS waits for ever for memory that it cannot get. Where memory is limited, it so takes its buffers,
/// one for each thread that multiplies at once, before networks and data take the rest.
void take_blas_buffers() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  const at::Tensor square = at::ones({512, 512});
  static_cast<void>(at::mm(square, square));
  parallel_for(thread_count(), 1, [&](int64_t, int64_t) { static_cast<void>(at::mm(square, square)); });
}

/// libtorch begins with one thread when it is loaded late.
void set_up_process(const RunOptions& options) {
  set_up_logging(options.log_level);
  if (options.num_threads) set_thread_count(usable_thread_count(*options.num_threads));
  at::set_num_threads(thread_count());
  use_block_cache_for_tensors();
  take_blas_buffers();
  seed_everything(static_cast<uint64_t>(options.seed));
  default_generator() = MersenneTwister(static_cast<uint64_t>(options.seed));
}

void run(TorchCommand command) {
  set_up_process(command.options);
  command.random = {[](Graph& graph) { initialize_parameters(graph); }, [] { return draw_order_seed(); }};
  if (command.name == "quickstart") return run_training_quickstart(command);
  std::unique_ptr<ProcessGroup> launched;
  if (command.workers) {
    launched = join_with_gloo(*command.workers, std::chrono::seconds(command.options.worker_timeout),
                              command.meeting);
    if (command.workers->rank != 0) silence_worker();
  }
  ProcessGroup& group = launched ? *launched : single_process();
  read_whole_network(command);
  run_train(command, group);
}

}  // namespace
}  // namespace detent

extern "C" const char* detent_torch_build() { return detent::build_identity(); }

extern "C" void detent_torch_run(const detent::TorchCommand& given) {
  using namespace detent;
  // The library has lists of its own.
  handle_signals_for_open_files();
  const FileRoles::Use roles(given.file_roles);
  run(given);
  warn_of_broken_images();
}
