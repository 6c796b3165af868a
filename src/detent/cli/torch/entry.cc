#include <ATen/Parallel.h>

#include "detent/cli/torch/commands.h"
#include "detent/core/error.h"
#include "detent/core/log.h"
#include "detent/core/parallel.h"
#include "detent/execution/initialize.h"

namespace detent {
namespace {

/// libtorch begins with one thread when it is loaded late.
void set_up_process(const RunOptions& options) {
  set_up_logging(options.log_level);
  if (options.num_threads) set_thread_count(static_cast<int>(*options.num_threads));
  at::set_num_threads(thread_count());
  seed_everything(static_cast<uint64_t>(options.seed));
}

}  // namespace
}  // namespace detent

extern "C" void detent_torch_run(const detent::TorchCommand& command) {
  using namespace detent;
  set_up_process(command.options);
  if (command.name == "train") return run_train(command);
  if (command.name == "test") return run_test(command);
  if (command.name == "transform") return run_transform(command);
  if (command.name == "quickstart") return run_quickstart(command);
  DETENT_CHECK(false, "command {}", command.name);
}
