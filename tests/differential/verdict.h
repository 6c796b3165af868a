#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "case.h"
#include "graph_writer.h"
#include "runs.h"

namespace detent {

/// "" where the tensors are equal, NaN as NaN.
std::string difference(const Tensor& expected, const Tensor& actual);

/// "" where they differ by no more than what is known of the value allows.
std::string difference(const Tensor& expected, const Tensor& actual, const Numbers& numbers);

/// The first difference of the outputs, with the output's name.
std::string difference(const std::vector<Tensor>& expected, const std::vector<Tensor>& actual,
                       const std::vector<GeneratedValue>& outputs, bool exactly);

/// Why the output may differ from ONNX Runtime's as it does: the rule of a node that it depends on, where
/// ONNX leaves something open, or ONNX Runtime does not do what ONNX says. "" where it may not.
std::string allowed_difference(const Case& generated, const GeneratedValue& output, const Tensor& expected,
                               const Tensor& actual);

/// Outcome of a case.
struct CaseVerdict {
  std::vector<StepResult> problems;  // failures, and what Detent refuses
  std::string refused_by_onnx_runtime;
  std::vector<std::string> allowed;  // differences, with their reasons
  bool is_compared = false;          // with ONNX Runtime

  bool has_failed() const;
};

/// Runs cases, each in a folder of its own: in Detent in a process of its own, so that crashes, and what
/// never ends, are found with the case and the step; in ONNX Runtime, unless that is nullptr; and judges
/// them.
class CaseRunner {
 public:
  explicit CaseRunner(OnnxRuntime* onnx_runtime) : onnx_runtime_(onnx_runtime) {}

  std::vector<CaseVerdict> run(const std::vector<Case>& cases, const std::filesystem::path& folder) const;
  CaseVerdict run_one(const Case& only, const std::filesystem::path& folder) const {
    return run({only}, folder)[0];
  }

 private:
  void compare(const Case& generated, const std::filesystem::path& folder, CaseVerdict& verdict) const;

  OnnxRuntime* onnx_runtime_;
};

/// The smallest of the cases that give a single node's results as outputs and fail; the case itself where
/// none does.
Case smallest_failing(const CaseRunner& runner, const Case& failing, const std::filesystem::path& folder);

}  // namespace detent
