#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace detent {

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
