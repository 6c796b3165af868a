#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "case.h"

namespace detent {

/// How a step of a case ended.
enum class Ending { kDone, kRefused, kWrong, kInternalError };

struct StepResult {
  Ending ending = Ending::kDone;
  std::string step;     // "import", "run fast", ...
  std::string message;  // why not done
};

/// What Detent makes of a case in a folder (write_case).
struct DetentRun {
  std::vector<StepResult> problems;
  std::vector<Tensor> outputs;  // none where no engine gives them
  bool has_exported = false;    // exported.onnx is in the folder
};

/// Imports the model and runs it in each engine, exports it, and runs what is read back; compares all of
/// these. `announce` is told each step before it begins, for the case that it never ends.
DetentRun run_detent(const Case& generated, const std::filesystem::path& folder,
                     const std::function<void(const char*)>& announce);

}  // namespace detent
