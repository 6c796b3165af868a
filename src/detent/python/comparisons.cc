#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "detent/cli/network/loaded_network.h"
#include "detent/cli/network/study_folder.h"
#include "detent/cli/results.h"
#include "detent/core/error.h"
#include "detent/core/random_numbers.h"
#include "detent/datasets/training_splits.h"
#include "detent/engine/fast_executor.h"
#include "detent/files/file.h"
#include "detent/files/json.h"
#include "detent/passes/post_training/static_quantize_options.h"
#include "detent/python/arrays.h"
#include "detent/python/bindings.h"
#include "detent/python/inputs.h"
#include "detent/python/network.h"
#include "detent/python/work.h"
#include "detent/report/page.h"
#include "detent/workflows/compare_network.h"
#include "detent/workflows/network_data.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace detent::python {
namespace {

namespace fs = std::filesystem;

struct ComparisonCall : StudyCall {
  NetworkComparison comparison;
};

/// As `detent compare` divides what it is given.
CalibrationSplits splits_of(Samples& calibration, const Samples* test, const ComparisonCall& call) {
  StaticQuantizeOptions shared;
  read_fields(shared, call.comparison.quantization, call.comparison.where);
  const std::shared_ptr<const Dataset> whole = calibration.shared();
  if (test != nullptr || !whole->has_labels() || whole->size() < 2) return {};
  return divide_for_calibration(whole, shared.num_samples);
}

void write_page(const ComparisonCall& call, const ComparisonReport& report, const Value& value) {
  Table results = results_table("compare");
  results["pareto"] = compared_front(report);
  results["comparison"] = value;
  results["configuration"] = write_changed_fields(call.comparison.options);
  results["passes"] = Table{{"static_quantize", call.comparison.quantization}};
  results["warnings"] = pending_warnings();
  write_file(call.report, report_page(results));
}

ComparisonReport compare(const Network& network, Samples& calibration, Samples* test, ComparisonCall& call) {
  NetworkComparison& comparison = call.comparison;
  static_cast<void>(plan_comparison(comparison.options, comparison.quantization, comparison.where));
  const CalibrationSplits splits = splits_of(calibration, test, call);
  const Dataset& whole = calibration.dataset();
  const Dataset& others = test == nullptr ? whole : test->dataset();
  const ComparedSamples samples{splits.calibration ? *splits.calibration : whole,
                                splits.test ? *splits.test : others};
  check_compared_samples(samples);
  const Graph fitted = fitted_to_data(network_to_quantize(network.graph(), network.source()),
                                      samples.calibration.has_labels() ? samples.calibration : samples.test,
                                      network.source(), true);
  Graph graph = network_to_compare(fitted, samples.calibration, network.source());
  const auto study =
      claimed_folder(call, "compare", comparison_files(), comparison_settings(comparison, graph, samples));
  const TemporaryFolder temporary;
  const fs::path folder = call.folder.empty() ? temporary.path() : fs::path(call.folder);
  comparison.journal = folder / kComparisonJournal;
  comparison.resumes = study && study->resumes();
  const auto lock = lock_generator();
  default_generator() = MersenneTwister(static_cast<uint64_t>(comparison.seed));
  FastExecutor executor;
  PassContext context =
      calibration_context(samples.calibration, RandomSource(), call.batch_size, folder, executor);
  context.loader_threads = call.num_workers;
  ComparisonReport report = compare_network(std::move(graph), samples, comparison, RandomSource(), context);
  const Value value = comparison_value(report);
  write_file(folder / kComparisonReport, json_text(value) + "\n");
  if (!call.report.empty()) write_page(call, report, value);
  return report;
}

/// Keywords of `Network.quantize` that make the network of a row.
nb::dict keywords_of(const ComparisonPlan& plan, const ComparedNetwork& network) {
  const ComparedMethod& method = plan.methods[network.method];
  nb::dict keywords = object_of(plan.quantization);
  keywords["weights"] = plan.formats[network.format].weights;
  keywords["activations"] = plan.formats[network.format].activations;
  nb::list prepare;
  for (const Table* passes : {&plan.prepare, &method.before})
    for (const auto& [name, options] : *passes) prepare.append(nb::cast(name));
  keywords["prepare"] = prepare;
  nb::list improve;
  for (const auto& [name, options] : method.after) improve.append(nb::cast(name));
  keywords["improve"] = improve;
  return keywords;
}

nb::dict compared(const Network& network, Samples& calibration, Samples* test, const nb::dict& options,
                  const nb::dict& quantization, int64_t seed, int64_t batch_size, int64_t num_workers,
                  const std::string& folder, bool resume, bool overwrite, const std::string& report_path) {
  ComparisonCall call{{seed, batch_size, num_workers, folder, resume, overwrite, report_path}, {}};
  // Not within the braces: where it throws, GCC 12 destroys what stands before it twice.
  call.comparison.quantization = table_of(quantization, "compare");
  call.comparison.seed = seed;
  call.comparison.start = std::chrono::steady_clock::now();
  call.comparison.where = "compare";
  read_fields(call.comparison.options, table_of(options, "compare"), "compare");
  if (resume && folder.empty()) fail("resume: got no folder, expected the folder of a comparison");
  if (!report_path.empty()) claim_report({.report = report_path, .overwrite = overwrite});
  const ComparisonReport report = without_lock([&] { return compare(network, calibration, test, call); });
  nb::list keywords;
  for (const ComparedNetwork& row : report.networks) keywords.append(keywords_of(report.plan, row));
  nb::dict dict;
  dict["report"] = object_of(comparison_value(report));
  dict["options"] = keywords;
  dict["front"] = object_of(compared_front(report));
  dict["text"] = comparison_table(report).to_text();
  return dict;
}

}  // namespace

void bind_comparisons(nb::module_& module) {
  module.def(
      "compare", compared, "network"_a, "calibration"_a, "test"_a.none(), "options"_a, "quantization"_a,
      "seed"_a, "batch_size"_a, "num_workers"_a, "folder"_a, "resume"_a, "overwrite"_a, "report"_a,
      nb::sig("def compare(network: NetworkGraph, calibration: Samples, test: Samples | None, options: "
              "dict[str, typing.Any], quantization: dict[str, typing.Any], seed: int, batch_size: int, "
              "num_workers: int, folder: str, resume: bool, overwrite: bool, report: str) -> dict[str, "
              "typing.Any]"));
  module.def(
      "compare_options",
      [] {
        std::vector<FieldDescription> fields = describe_fields<ComparisonOptions>();
        for (FieldDescription& field : comparison_quantization_options()) fields.push_back(std::move(field));
        return descriptions(fields);
      },
      nb::sig("def compare_options() -> list[dict[str, str]]"));
  module.def(
      "front_svg", [](const nb::dict& pareto) { return front_drawing(table_of(pareto, "pareto")); },
      "pareto"_a, nb::sig("def front_svg(pareto: dict[str, typing.Any]) -> str"));
}

}  // namespace detent::python
