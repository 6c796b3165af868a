#include "verdict.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>

#include "detent/core/convert.h"
#include "detent/core/parallel.h"
#include "detent/files/array_files.h"
#include "detent/files/file.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

/// Progress of a process that may crash, seen by the one that waits for it.
struct Progress {
  size_t index = 0;
  std::array<char, 64> step = {};
};

class SharedProgress {
 public:
  SharedProgress() {
    void* memory = mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    DETENT_CHECK(memory != MAP_FAILED, "mmap: {}", errno);
    progress_ = new (memory) Progress;
  }
  ~SharedProgress() { munmap(progress_, sizeof(Progress)); }
  SharedProgress(const SharedProgress&) = delete;
  SharedProgress& operator=(const SharedProgress&) = delete;
  Progress* operator->() const { return progress_; }

 private:
  Progress* progress_;
};

fs::path case_folder(const fs::path& folder, size_t index) { return folder / std::to_string(index); }

std::string on_one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  std::ranges::replace(text, '\t', ' ');
  return text;
}

void write_run(const DetentRun& run, const fs::path& folder) {
  for (size_t i = 0; i < run.outputs.size(); ++i) {
    const Tensor& output = run.outputs[i];
    const bool is_known = output.dtype() != DType::kBFloat16;  // to NumPy
    write_npy(folder / fmt::format("detent_{}.npy", i), is_known ? output : to_float32(output));
  }
  std::ofstream file(folder / "detent.txt");
  for (const StepResult& problem : run.problems)
    file << static_cast<int>(problem.ending) << '\t' << problem.step << '\t' << on_one_line(problem.message)
         << '\n';
}

std::vector<StepResult> read_problems(const fs::path& folder) {
  std::vector<StepResult> problems;
  std::ifstream file(folder / "detent.txt");
  std::string line;
  while (std::getline(file, line)) {
    const size_t first = line.find('\t');
    const size_t second = line.find('\t', first + 1);
    problems.push_back({static_cast<Ending>(std::stoi(line)), line.substr(first + 1, second - first - 1),
                        line.substr(second + 1)});
  }
  return problems;
}

/// Until all cases are done, or one ends the process.
[[noreturn]] void run_cases(const std::vector<Case>& cases, size_t first, const fs::path& folder,
                            SharedProgress& progress) {
  constexpr rlim_t kMostBytes = rlim_t{8} << 30;
  constexpr unsigned kMostSeconds = 20;
  const rlimit memory{kMostBytes, kMostBytes};
  setrlimit(RLIMIT_AS, &memory);
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  set_thread_count(1);
  for (size_t i = first; i < cases.size(); ++i) {
    progress->index = i;
    alarm(kMostSeconds);
    const auto announce = [&](const char* step) {
      std::strncpy(progress->step.data(), step, progress->step.size() - 1);
    };
    write_run(run_detent(cases[i], case_folder(folder, i), announce), case_folder(folder, i));
  }
  _exit(0);
}

/// As many processes as it takes. What ended one is the case's failure.
void run_in_processes(const std::vector<Case>& cases, const fs::path& folder,
                      std::vector<CaseVerdict>& verdicts) {
  SharedProgress progress;
  for (size_t first = 0; first < cases.size();) {
    const pid_t process = fork();
    if (process == 0) run_cases(cases, first, folder, progress);
    int status = 0;
    waitpid(process, &status, 0);
    const size_t end = status == 0 ? cases.size() : progress->index;
    for (size_t i = first; i < end; ++i) verdicts[i].problems = read_problems(case_folder(folder, i));
    if (status != 0) {
      const std::string what =
          WIFSIGNALED(status) ? fmt::format("signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)))
                              : fmt::format("exit status {}", WEXITSTATUS(status));
      verdicts[end].problems.push_back({Ending::kInternalError, progress->step.data(), "ended by " + what});
    }
    first = end + 1;
  }
}

/// Whether ONNX Runtime refuses a model that is right, but beyond what it has. A size of 0 is unknown to what
/// shares its memory.
bool is_limit(const std::string& refusal) {
  constexpr const char* kLimits[] = {"not supported", "NOT_IMPLEMENTED",
                                     "Shape mismatch attempting to re-use buffer. {0}"};
  return std::ranges::any_of(kLimits,
                             [&](const char* limit) { return refusal.find(limit) != std::string::npos; });
}

std::vector<Tensor> read_outputs(const fs::path& folder, const char* prefix) {
  std::vector<Tensor> outputs;
  for (size_t i = 0; fs::exists(folder / fmt::format("{}{}.npy", prefix, i)); ++i)
    outputs.push_back(read_npy(folder / fmt::format("{}{}.npy", prefix, i)));
  return outputs;
}

}  // namespace

bool CaseVerdict::has_failed() const {
  return std::ranges::any_of(problems,
                             [](const StepResult& problem) { return problem.ending != Ending::kRefused; });
}

std::vector<CaseVerdict> CaseRunner::run(const std::vector<Case>& cases, const fs::path& folder) const {
  std::vector<CaseVerdict> verdicts(cases.size());
  for (size_t i = 0; i < cases.size(); ++i) {
    fs::remove_all(case_folder(folder, i));
    write_case(cases[i], case_folder(folder, i));
  }
  run_in_processes(cases, folder, verdicts);
  for (size_t i = 0; i < cases.size(); ++i) {
    if (onnx_runtime_ != nullptr) compare(cases[i], case_folder(folder, i), verdicts[i]);
  }
  return verdicts;
}

void CaseRunner::compare(const Case& generated, const fs::path& folder, CaseVerdict& verdict) const {
  std::vector<std::pair<std::string, fs::path>> inputs;
  for (const auto& [name, tensor] : generated.inputs) inputs.emplace_back(name, folder / (name + ".npy"));
  verdict.refused_by_onnx_runtime =
      onnx_runtime_->run(folder / "model.onnx", folder / "onnxruntime_", inputs);
  if (!verdict.refused_by_onnx_runtime.empty()) return;
  const std::vector<Tensor> expected = read_outputs(folder, "onnxruntime_");
  const std::vector<Tensor> own = read_outputs(folder, "detent_");
  const auto judge = [&](const char* what, const std::vector<Tensor>& actual) {
    verdict.is_compared = true;
    if (actual.size() != expected.size()) {
      const std::string text = fmt::format("{} outputs, expected {}", actual.size(), expected.size());
      return verdict.problems.push_back({Ending::kWrong, what, text});
    }
    for (size_t i = 0; i < expected.size(); ++i) {
      const GeneratedValue& output = generated.outputs[i];
      const std::string text = difference(expected[i], actual[i], output.numbers);
      if (text.empty()) continue;
      std::string reason = allowed_difference(generated, output, expected[i], actual[i]);
      // ONNX Runtime may end up differently for two graphs where both are allowed to differ from Detent.
      if (reason.empty() && !allowed_difference(generated, output, expected[i], own[i]).empty())
        reason = allowed_difference(generated, output, own[i], actual[i]);
      if (!reason.empty()) {
        verdict.allowed.push_back(reason);
      } else {
        verdict.problems.push_back({Ending::kWrong, what, fmt::format("output {}: {}", output.name, text)});
      }
    }
  };
  if (!own.empty()) judge("ONNX Runtime's results", own);
  if (!fs::exists(folder / "exported.onnx") || own.empty()) return;
  const std::string refusal = onnx_runtime_->run(folder / "exported.onnx", folder / "exported_", inputs);
  if (refusal.empty()) {
    judge("the export in ONNX Runtime", read_outputs(folder, "exported_"));
  } else {
    // Where a convention differs, so may the shapes that follow from it.
    const bool is_allowed = is_limit(refusal) || !verdict.allowed.empty();
    verdict.problems.push_back(
        {is_allowed ? Ending::kRefused : Ending::kWrong, "the export in ONNX Runtime", refusal});
  }
}

Case smallest_failing(const CaseRunner& runner, const Case& failing, const fs::path& folder) {
  for (const onnx::NodeProto& node : failing.model.graph().node()) {
    const std::vector<std::string> outputs(node.output().begin(), node.output().end());
    if (outputs.front().starts_with("c")) continue;
    Case reduced = reduced_case(failing, outputs);
    if (runner.run_one(reduced, folder).has_failed()) return reduced;
  }
  return failing;
}

}  // namespace detent
