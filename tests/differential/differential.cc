// Random graphs in Detent's reference, its engine, its export, and ONNX Runtime (make differential).
//
//   differential [--count N] [--seed N] [--first INDEX] [--onnxruntime FOLDER] [--failures FOLDER]
//
// Without --onnxruntime Detent is compared with itself alone. Exits with 1 where a case fails: results
// differ, or something crashes, never ends or is an internal error. Each case is a function of seed and
// index.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <regex>

#include "detent/files/file.h"
#include "verdict.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

struct Options {
  uint64_t count = 300;
  uint64_t seed = 1;
  uint64_t first = 0;
  std::string onnx_runtime;
  std::string failures = "differential_failures";
};

Options parsed(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const std::string value = argv[i + 1];
    if (name == "--count") {
      options.count = std::stoull(value);
    } else if (name == "--seed") {
      options.seed = std::stoull(value);
    } else if (name == "--first") {
      options.first = std::stoull(value);
    } else if (name == "--onnxruntime") {
      options.onnx_runtime = value;
    } else if (name == "--failures") {
      options.failures = value;
    } else {
      throw UsageError("unknown option " + name);
    }
  }
  if (argc % 2 == 0) throw UsageError("the last option has no value");
  return options;
}

/// Texts that differ in names and numbers only are one reason.
std::string reason_of(const std::string& message) {
  static const std::regex path("[^ ]*/model.onnx: |[^ ]*/exported.onnx: ");
  static const std::regex name("node \"[^\"]*\" ");
  static const std::regex number("-?[0-9]+(\\.[0-9]+)?(e[+-]?[0-9]+)?");
  static const std::regex list("N(, N)+");
  std::string text = std::regex_replace(message, path, "");
  text = std::regex_replace(text, name, "");
  text = std::regex_replace(std::regex_replace(text, number, "N"), list, "N");
  constexpr size_t kMost = 200;
  return text.substr(0, kMost);
}

/// How often each reason came, and the first case that had it.
class Tally {
 public:
  void add(const std::string& reason, uint64_t index) {
    auto& [count, first] = counts_.try_emplace(reason, 0, index).first->second;
    ++count;
  }
  void print(const char* title) const {
    if (counts_.empty()) return;
    std::vector<std::pair<std::string, std::pair<uint64_t, uint64_t>>> sorted(counts_.begin(), counts_.end());
    std::ranges::stable_sort(sorted, std::greater(), [](const auto& entry) { return entry.second.first; });
    fmt::print("\n{}:\n", title);
    for (const auto& [reason, count] : sorted)
      fmt::print("  {:6}  {}  (case {})\n", count.first, reason, count.second);
  }
  uint64_t total() const {
    uint64_t sum = 0;
    for (const auto& [reason, count] : counts_) sum += count.first;
    return sum;
  }

 private:
  std::map<std::string, std::pair<uint64_t, uint64_t>> counts_;
};

class Differential {
 public:
  explicit Differential(const Options& options)
      : options_(options),
        onnx_runtime_(options.onnx_runtime.empty() ? nullptr
                                                   : std::make_unique<OnnxRuntime>(options.onnx_runtime)),
        runner_(onnx_runtime_.get()),
        work_(fs::path(fs::is_directory("/dev/shm") ? "/dev/shm" : fs::temp_directory_path()) /
              fmt::format("detent_differential_{}", getpid())) {}
  ~Differential() { fs::remove_all(work_); }
  Differential(const Differential&) = delete;
  Differential& operator=(const Differential&) = delete;

  bool run() {
    constexpr uint64_t kChunk = 64;
    const uint64_t end = options_.first + options_.count;
    for (uint64_t first = options_.first; first < end; first += kChunk) {
      std::vector<Case> cases;
      for (uint64_t i = first; i < std::min(end, first + kChunk); ++i)
        cases.push_back(generated_case(options_.seed, i));
      const std::vector<CaseVerdict> verdicts = runner_.run(cases, work_ / "chunk");
      for (size_t i = 0; i < cases.size(); ++i) take(cases[i], verdicts[i], first + i);
      std::fflush(stdout);
    }
    return summary();
  }

 private:
  void take(const Case& generated, const CaseVerdict& verdict, uint64_t index) {
    const std::string& refusal = verdict.refused_by_onnx_runtime;
    if (!refusal.empty()) onnx_runtime_refused_.add(reason_of(refusal), index);
    for (const StepResult& problem : verdict.problems) {
      const std::string reason = fmt::format("{}: {}", problem.step, reason_of(problem.message));
      // A model that ONNX Runtime refuses too need not be valid.
      if (problem.ending == Ending::kRefused && refusal.empty()) refused_.add(reason, index);
      if (problem.ending != Ending::kRefused) failed_.add(reason, index);
    }
    for (const std::string& reason : verdict.allowed) allowed_.add(reason, index);
    compared_ += verdict.is_compared ? 1 : 0;
    if (verdict.has_failed()) {
      keep(generated, index);
    } else if (options_.count == 1 && !(verdict.problems.empty() && refusal.empty())) {
      fs::create_directories(options_.failures);
      fs::copy(work_ / "chunk" / "0", kept_in(index), fs::copy_options::recursive);
      fmt::print("case {} is refused: see {}\n", index, kept_in(index).string());
    }
  }

  fs::path kept_in(uint64_t index) const {
    return fs::path(options_.failures) / fmt::format("{}_{}", options_.seed, index);
  }

  void keep(const Case& generated, uint64_t index) {
    ++failures_;
    const fs::path folder = kept_in(index);
    const Case smallest = smallest_failing(runner_, generated, work_ / "reduced");
    const CaseVerdict verdict = runner_.run_one(smallest, work_ / "reduced");
    fs::create_directories(options_.failures);
    fs::remove_all(folder);
    fs::copy(work_ / "reduced" / "0", folder, fs::copy_options::recursive);
    write_file(folder / "whole_model.onnx", generated.model.SerializeAsString());
    std::string text = fmt::format("make differential SEED={} FIRST={} COUNT=1\n", options_.seed, index);
    for (const StepResult& problem : verdict.problems)
      text += fmt::format("{}: {}\n", problem.step, problem.message);
    std::string operators;
    for (const auto& node : smallest.model.graph().node()) operators += " " + node.op_type();
    text += "nodes:" + operators + "\n";
    write_file(folder / "README.txt", text);
    fmt::print("case {} failed:{}\n", index, operators);
    for (const StepResult& problem : verdict.problems)
      if (problem.ending != Ending::kRefused) fmt::print("  {}: {}\n", problem.step, problem.message);
  }

  bool summary() const {
    failed_.print("failures");
    refused_.print("what Detent refuses, and ONNX Runtime runs");
    onnx_runtime_refused_.print("what ONNX Runtime refuses");
    allowed_.print("differences that are allowed (conventions.cc)");
    fmt::print(
        "\n{} graphs from seed {}: {} compared with ONNX Runtime, {} refused by it, {} refusals by Detent, "
        "{} failed{}\n",
        options_.count, options_.seed, compared_, onnx_runtime_refused_.total(), refused_.total(), failures_,
        failures_ > 0 ? ": see " + options_.failures : "");
    return failures_ == 0;
  }

  Options options_;
  std::unique_ptr<OnnxRuntime> onnx_runtime_;
  CaseRunner runner_;
  fs::path work_;
  Tally failed_;
  Tally refused_;
  Tally onnx_runtime_refused_;
  Tally allowed_;
  uint64_t compared_ = 0;
  uint64_t failures_ = 0;
};

}  // namespace
}  // namespace detent

int main(int argc, char** argv) {
  try {
    return detent::Differential(detent::parsed(argc, argv)).run() ? 0 : 1;
  } catch (const std::exception& error) {
    std::cerr << "differential: " << error.what() << "\n";
    return 2;
  }
}
