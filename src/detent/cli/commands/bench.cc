#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <memory>

#include <CLI/CLI.hpp>

#include "detent/cli/commands/command.h"
#include "detent/cli/option_fields.h"
#include "detent/cli/read_network.h"
#include "detent/core/error.h"
#include "detent/core/log.h"
#include "detent/core/parallel.h"
#include "detent/core/process_resources.h"
#include "detent/core/text_table.h"
#include "detent/engine/fast_executor.h"
#include "detent/engine/machine_limits.h"
#include "detent/graph/value_sizes.h"
#include "detent/inference/integer_executor.h"
#include "detent/inference/plan.h"
#include "detent/report/network.h"

namespace detent {
namespace {

using Clock = std::chrono::steady_clock;

struct BenchOptions {
  std::string model;
  std::string engine = "fast";
  int64_t batch = 1;
  GivenInputs given = {};
  double seconds = 3;
  bool profile = false;
};

/// Between -1 and 1, the same each time.
void fill_with_numbers(std::span<float> values) {
  float next = 0.3F;
  for (float& value : values) {
    next = 1 - 1.9F * next * next;
    value = next;
  }
}

/// That of all threads.
double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct RunTimes {
  std::vector<double> sorted = {};
  double least_processor_seconds = HUGE_VAL;
};

RunTimes run_times(const Program& program, std::span<const Tensor> inputs, double seconds) {
  constexpr size_t kFewest = 5;
  RunTimes times;
  program.run(inputs);  // plans, and takes memory
  for (double spent = 0; spent < seconds || times.sorted.size() < kFewest;) {
    const double before = processor_seconds();
    const Clock::time_point start = Clock::now();
    program.run(inputs);
    times.sorted.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    times.least_processor_seconds = std::min(times.least_processor_seconds, processor_seconds() - before);
    spent += times.sorted.back();
  }
  std::ranges::sort(times.sorted);
  return times;
}

double peak_mebibytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

std::string mebibytes(int64_t bytes) {
  return fmt::format("{:.2f} MiB", static_cast<double>(bytes) / (1 << 20));
}

void add_latency(CommandResults& results, const BenchOptions& options, const RunTimes& measured) {
  const std::vector<double>& times = measured.sorted;
  const auto milliseconds = [&](double share) {
    const auto at = static_cast<size_t>(share * static_cast<double>(times.size() - 1));
    return fmt::format("{:.3f}", times[at] * 1e3);
  };
  TextTable table({"threads", "batch", "runs", "min ms", "median ms", "p99 ms", "samples/s", "min CPU ms"});
  table.add_row({std::to_string(thread_count()), std::to_string(options.batch), std::to_string(times.size()),
                 milliseconds(0), milliseconds(0.5), milliseconds(0.99),
                 fmt::format("{:.1f}", static_cast<double>(options.batch) / times[times.size() / 2]),
                 fmt::format("{:.3f}", measured.least_processor_seconds * 1e3)});
  results.add_table("latency", table);
}

void add_profile(CommandResults& results, const FastProgram& program, std::span<const Tensor> inputs,
                 size_t runs) {
  const MachineLimits limits = measured_limits();
  constexpr size_t kMostRuns = 50;
  const std::vector<StepProfile> steps =
      program.profile(inputs, static_cast<int>(std::clamp<size_t>(runs, 1, kMostRuns)));
  double all = 0;
  for (const StepProfile& step : steps) all += step.seconds;
  TextTable table({"nodes", "kernel", "us", "share", "GOP/s", "GB/s", "of the limit", "not faster because"});
  List rows;
  for (const StepProfile& step : steps) {
    const double products = step.products / step.seconds;
    const double bytes = static_cast<double>(step.bytes) / step.seconds;
    const double threads = thread_count();
    const double most =
        step.multiplies_floats ? limits.float_products_per_second : limits.products_per_second;
    const double limit = std::max(products / (most * threads), bytes / limits.bytes_per_second);
    table.add_row({step.nodes, step.kernel, fmt::format("{:.1f}", step.seconds * 1e6),
                   fmt::format("{:.1f} %", 100 * step.seconds / all),
                   step.products > 0 ? fmt::format("{:.1f}", 2e-9 * products) : "",
                   fmt::format("{:.1f}", 1e-9 * bytes), fmt::format("{:.0f} %", 100 * limit), step.why});
    rows.push_back(Table{{"nodes", step.nodes},
                         {"kernel", step.kernel},
                         {"microseconds", step.seconds * 1e6},
                         {"share", step.seconds / all},
                         {"gop_per_second", 2e-9 * products},
                         {"gb_per_second", 1e-9 * bytes},
                         {"share_of_limit", limit},
                         {"not_faster_because", step.why}});
  }
  results.add("profile", std::move(rows));
  results.say(
      fmt::format("\n{}\none thread does at most {:.0f} GOP/s of 8 bits and {:.0f} in float32,\n"
                  "and reads {:.1f} GB/s of memory\n",
                  table.to_text(), 2e-9 * limits.products_per_second, 2e-9 * limits.float_products_per_second,
                  1e-9 * limits.bytes_per_second));
}

void measure(BenchOptions options, Graph graph, CommandResults& results) {
  check_finished_quantizers(graph);
  NamedSizes sizes = given_sizes(graph, options.given);
  sizes.emplace(kBatchName, options.batch);
  options.batch = sizes.find(kBatchName)->second;
  for (const auto& [symbol, size] : with_batch(graph, usual_sizes(graph), options.batch))
    sizes.emplace(symbol, size);
  const std::vector<Tensor> inputs = input_tensors(graph, options.given, sizes, fill_with_numbers);
  if (options.engine == "reference") {
    const IntegerProgram program(graph);
    add_latency(results, options, run_times(program, inputs, options.seconds));
    return;
  }
  const FastProgram program(std::move(graph));
  const RunTimes times = run_times(program, inputs, options.seconds);
  add_latency(results, options, times);
  results.say(fmt::format("\nkernels: {}; weights {}, values {}, whole process {:.0f} MiB\n",
                          program.target(), mebibytes(program.weight_bytes()),
                          mebibytes(program.arena_bytes(inputs)), peak_mebibytes()));
  results.add("memory", Table{{"weight_bytes", program.weight_bytes()},
                              {"arena_bytes", program.arena_bytes(inputs)},
                              {"process_bytes", static_cast<int64_t>(peak_mebibytes() * (1 << 20))}});
  if (options.profile) add_profile(results, program, inputs, times.sorted.size());
}

/// Under the option's former name, 0 stood for one a processor.
void take_threads(const CLI::App& app, const OptionField& threads, std::string text) {
  if (app.count("--threads") > 0) {
    if (app.count(threads.flag) > 0)
      throw UsageError(fmt::format("got {} and --threads, which are the same", threads.flag));
    warn_of_former_name("option", "--threads", threads.flag);
    if (text == "0") text = "NA";
  }
  if (text.empty()) return;
  RunOptions options;
  set_flag(options, threads.name, threads.parse(text));
  if (options.num_threads) set_thread_count(usable_thread_count(*options.num_threads));
}

}  // namespace

int run_bench(const std::vector<std::string>& args) {
  CLI::App app(
      "Measure how fast a network runs that is quantized for integers, or in float: latency, throughput, "
      "memory, and what each of its steps takes.",
      "detent bench");
  BenchOptions options;
  std::vector<std::string> inputs;
  std::vector<std::string> shapes;
  ResultOptions result_options;
  app.add_option("model", options.model, "a network (.mz or .onnx)")->required()->option_text(" ");
  app.add_option("--engine", options.engine, "fast or reference")->capture_default_str();
  app.add_option("--batch", options.batch, "batch size")->capture_default_str();
  app.add_option("--input", inputs,
                 "NAME=FILE: value of an input, .npy or ONNX tensor (.pb); or an .npz file of several; "
                 "default: numbers, zeros of other types");
  app.add_option("--shape", shapes, "NAME=1,3,224,224: shape of an input with open sizes");
  const OptionField& threads = option_field("num_threads");
  std::string thread_text;
  app.add_option(threads.flag, thread_text, threads.help)->option_text("VALUE");
  app.add_option("--threads", thread_text)->group("");  // the former name, not in the help
  app.add_option("--seconds", options.seconds, "seconds to measure")->capture_default_str();
  app.add_flag("--profile", options.profile, "time and kernel of each step, and why no faster one");
  add_result_options(app, result_options, true);
  if (!parse_arguments(app, args)) return 0;
  claim_report(result_options);
  if (options.engine != "fast" && options.engine != "reference") {
    throw UsageError("--engine: " + unknown_name_message("engine", options.engine,
                                                         std::vector<std::string>{"fast", "reference"}));
  }
  options.given = given_inputs(inputs, shapes);
  if (options.batch < 1) throw UsageError(fmt::format("--batch: got {}, expected at least 1", options.batch));
  take_threads(app, threads, thread_text);
  CommandResults results("bench", result_options);
  Graph graph = read_network(options.model, options.given);
  const Table network = results.are_kept() ? network_value(graph, {}) : Table();
  measure(options, std::move(graph), results);
  if (results.are_kept()) results.add("network", network);
  results.finish();
  return 0;
}

}  // namespace detent
