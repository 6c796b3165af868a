#pragma once

#include <sys/types.h>

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

/// Detent's run of a case in a folder (write_case).
struct DetentRun {
  std::vector<StepResult> problems;
  std::vector<Tensor> outputs;  // none where no engine gives them
  bool has_exported = false;    // exported.onnx is in the folder
};

/// Imports the model and runs it in each engine, exports it, and runs what is read back; compares all of
/// these. `announce` is told each step before it begins, for the case that it never ends.
DetentRun run_detent(const Case& generated, const std::filesystem::path& folder,
                     const std::function<void(const char*)>& announce);

/// ONNX Runtime in a process of its own (run_many.mjs), which is begun again where a model ends it.
class OnnxRuntime {
 public:
  /// `folder` is where npm has installed onnxruntime-node. Throws Error where it, or node, is missing.
  explicit OnnxRuntime(std::filesystem::path folder);
  ~OnnxRuntime();
  OnnxRuntime(const OnnxRuntime&) = delete;
  OnnxRuntime& operator=(const OnnxRuntime&) = delete;

  /// "" where the model ran, and output i is in PREFIXi.npy; else why not.
  std::string run(const std::filesystem::path& model, const std::string& prefix,
                  const std::vector<std::pair<std::string, std::filesystem::path>>& inputs);

 private:
  void begin();
  void end();
  /// Nothing more comes where it ended or takes too long.
  bool read_line(std::string& line);

  std::filesystem::path folder_;
  pid_t process_ = -1;
  int to_ = -1;
  int from_ = -1;
  std::string read_;
};

}  // namespace detent
