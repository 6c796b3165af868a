#include "detent/cli/network/calibration.h"

#include <utility>

#include "detent/cli/print.h"
#include "detent/workflows/calibration_context.h"

namespace detent {

PassContext make_pass_context(const Dataset& dataset, const RandomSource& random, int64_t batch_size,
                              std::filesystem::path output_dir, Executor& executor) {
  PassContext context = calibration_context(dataset, random, batch_size, std::move(output_dir), executor);
  context.report = [](const std::string& text) { print(text); };
  return context;
}

}  // namespace detent
