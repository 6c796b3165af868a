#include "detent/cli/network/commands.h"

#include <cstdio>

#include "detent/cli/network/quickstart.h"
#include "detent/cli/network/session.h"
#include "detent/core/error.h"
#include "detent/core/log.h"
#include "detent/datasets/image_dataset.h"

namespace detent {
namespace {

constexpr std::string_view kCommands[] = {"test", "transform", "quantize", "search", "compare", "run"};

}  // namespace

bool is_network_command(const TorchCommand& command) {
  return std::ranges::count(kCommands, command.name) > 0 || (command.name == "quickstart" && !command.trains);
}

void run_network_command(TorchCommand command, ProcessGroup& group) {
  if (command.name == "run") return run_model(command);
  if (command.name == "quickstart") return run_quickstart(command, nullptr);
  read_whole_network(command);
  if (command.name == "test") return run_test(command, group);
  if (command.name == "transform") return run_transform(command, group);
  if (command.name == "quantize") return run_quantize(command, group);
  if (command.name == "search") return run_search(command, group);
  if (command.name == "compare") return run_compare(command, group);
  DETENT_CHECK(false, "command {}", command.name);
}

void silence_worker() {
  std::fflush(stdout);
  if (std::freopen("/dev/null", "w", stdout) == nullptr) fail("cannot open /dev/null");
  set_up_logging("error");
}

void warn_of_broken_images() {
  if (const size_t broken = broken_image_count(); broken > 0)
    log_warning("{} images could not be read and were left out (--skip-broken)", broken);
}

}  // namespace detent
