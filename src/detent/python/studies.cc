#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "detent/cli/language_model.h"
#include "detent/cli/network/loaded_network.h"
#include "detent/cli/network/study_folder.h"
#include "detent/cli/read_network.h"
#include "detent/cli/results.h"
#include "detent/core/error.h"
#include "detent/core/error_fields.h"
#include "detent/core/parallel.h"
#include "detent/core/random_numbers.h"
#include "detent/datasets/training_splits.h"
#include "detent/engine/fast_executor.h"
#include "detent/files/file.h"
#include "detent/graph/loop.h"
#include "detent/python/arrays.h"
#include "detent/python/bindings.h"
#include "detent/python/inputs.h"
#include "detent/python/network.h"
#include "detent/python/quantizing.h"
#include "detent/python/work.h"
#include "detent/report/network.h"
#include "detent/report/page.h"
#include "detent/search/search.h"
#include "detent/workflows/network_data.h"
#include "detent/workflows/network_report.h"
#include "detent/workflows/network_values.h"
#include "detent/workflows/search_network.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace detent::python {
namespace {

namespace fs = std::filesystem;

std::optional<Engine> engine_of(const std::optional<std::string>& name) {
  if (!name) return std::nullopt;
  const auto known = enum_names(Engine());
  const std::vector<std::string> names(known.begin(), known.end());
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == *name) return static_cast<Engine>(i);
  fail_unknown("engine", "engine", *name, names, {.key = "engine"});
}

nb::dict values_of(const Network& network, nb::handle given,
                   const std::optional<std::vector<std::string>>& names, bool before_quantization,
                   bool as_integers, const std::optional<std::string>& engine) {
  const std::optional<Engine> wanted = engine_of(engine);
  const std::vector<Tensor> inputs = InputReader(network).tensors_of(given);
  const std::vector<NamedValue> values = without_lock([&] {
    std::vector<NamedValue> found = output_values(network.graph());
    if (names) {
      for (const std::string& name : *names)
        found.push_back({name, find_value(network.graph(), name, "names")});
    } else {
      for (NamedValue& value : node_values(network.graph())) found.push_back(std::move(value));
    }
    compute_values(network.graph(), inputs, found, {before_quantization, as_integers},
                   [&](Graph graph) { return program_of(std::move(graph), wanted); });
    return found;
  });
  nb::dict dict;
  const size_t outputs = network.output_names().size();
  for (size_t i = outputs; i < values.size(); ++i) {
    const NamedValue& value = values[i];
    dict[nb::str(value.name.c_str(), value.name.size())] = array_of(value.tensor.clone());
  }
  return dict;
}

void report(const Network& network, Samples* samples, const std::string& path, bool overwrite,
            int64_t batch_size, int64_t num_workers) {
  claim_report({.report = path, .overwrite = overwrite});
  without_lock([&] {
    Table results = results_table("test");
    const char* const name = holds_quantizers(network.graph()) ? "quantized" : "float";
    if (samples != nullptr && samples->dataset().has_labels())
      results["accuracy"] =
          List{accuracy_row(name, measure(network, samples->dataset(), batch_size, num_workers))};
    results["sizes"] = Table{{name, size_table(storage_bits(network.graph()))}};
    if (samples == nullptr) {
      results["network"] = network_value(network.graph(), {}, nullptr);
    } else {
      const Graph fitted = fitted_to_data(network.graph(), samples->dataset(), network.source(), true);
      results["network"] = reported_network(fitted, nullptr, samples->dataset());
    }
    results["warnings"] = pending_warnings();
    write_file(path, report_page(results));
    return true;
  });
}

struct SearchCall : StudyCall {
  SearchOptions options;
};

/// Results of a search, and its networks by their files' names.
struct Found {
  SearchReport report;
  std::vector<std::pair<std::string, std::shared_ptr<const Network>>> networks;
};

void write_search_report(const SearchCall& call, const SearchReport& report, const Graph& best,
                         const Dataset& samples) {
  Table results = results_table("search");
  for (auto& [key, value] : search_results(report)) results[key] = value;
  results["search_options"] = write_fields(call.options);
  results["network"] = reported_network(best, nullptr, samples);
  results["warnings"] = pending_warnings();
  write_file(call.report, report_page(results));
}

Found search(const Network& network, Samples& calibration, Samples* validation, const SearchCall& call) {
  const auto start = std::chrono::steady_clock::now();
  const std::shared_ptr<const Dataset> whole = calibration.shared();
  if (whole->size_count() > 1)
    fail("{}: samples of {} sizes, expected one: networks are compared by the same outputs for each sample",
         whole->source(), whole->size_count());
  CalibrationSplits splits;
  if (validation == nullptr && whole->has_labels() && whole->size() > 1)
    splits = divide_for_calibration(whole, call.options.num_samples);
  const Dataset& training = splits.calibration ? *splits.calibration : *whole;
  const Dataset& judged = splits.test ? *splits.test : validation != nullptr ? validation->dataset() : *whole;
  const Graph fitted = fitted_to_data(network_to_quantize(network.graph(), network.source()), training,
                                      network.source(), true);
  if (holds_quantizers(fitted))
    fail("{}: the network is quantized already: a search begins with one in float", network.source());
  const std::vector<LanguageFile> texts =
      call.folder.empty() ? std::vector<LanguageFile>() : language_files(network.source(), fitted);
  const auto study = claimed_folder(call, "search", search_files(texts),
                                    search_settings(call.options, call.seed, fitted, training.size()));
  const TemporaryFolder temporary;
  const fs::path folder = call.folder.empty() ? temporary.path() : fs::path(call.folder);
  write_texts_of_search(texts, folder);
  const auto lock = lock_generator();
  default_generator() = MersenneTwister(static_cast<uint64_t>(call.seed));
  FastExecutor executor;
  PassContext context = calibration_context(training, RandomSource(), call.batch_size, folder, executor);
  context.loader_threads = call.num_workers;
  const NetworkSearch request{.options = call.options,
                              .seed = call.seed,
                              .folder = folder,
                              .resumes = study && study->resumes(),
                              .start = start,
                              .where = "search"};
  Found found;
  found.report =
      search_network(fitted, {training, judged, splits.is_divided}, request, RandomSource(), context);
  for (const SearchPoint& point : found.report.points)
    found.networks.emplace_back(
        point.file, std::make_shared<const Network>(read_network(folder / point.file), network.source()));
  if (!call.report.empty())
    write_search_report(call, found.report, read_network(folder / kBestNetwork), *whole);
  return found;
}

nb::dict searched(const Network& network, Samples& calibration, Samples* validation, const nb::dict& options,
                  int64_t seed, int64_t batch_size, int64_t num_workers, const std::string& folder,
                  bool resume, bool overwrite, const std::string& report) {
  if (!report.empty()) claim_report({.report = report, .overwrite = overwrite || resume});
  SearchCall call{{seed, batch_size, num_workers, folder, resume, overwrite, report}, {}};
  read_fields(call.options, table_of(options, "search"), "search");
  call.options.check("search");
  const Found found = without_lock([&] { return search(network, calibration, validation, call); });
  nb::dict networks;
  for (const auto& [name, graph] : found.networks) networks[nb::cast(name)] = nb::cast(graph);
  nb::dict dict;
  const Value value = report_value(found.report);
  dict["report"] = object_of(value);
  dict["networks"] = networks;
  return dict;
}

}  // namespace

void bind_studies(nb::module_& module) {
  module.def("values", values_of, "network"_a, "inputs"_a.none(), "names"_a.none(), "before_quantization"_a,
             "as_integers"_a, "engine"_a.none(),
             nb::sig("def values(network: NetworkGraph, inputs: typing.Any, names: list[str] | None, "
                     "before_quantization: bool, as_integers: bool, engine: str | None) -> dict[str, "
                     "typing.Any]"));
  module.def("report", report, "network"_a, "samples"_a.none(), "path"_a, "overwrite"_a, "batch_size"_a,
             "num_workers"_a);
  module.def("search", searched, "network"_a, "calibration"_a, "validation"_a.none(), "options"_a, "seed"_a,
             "batch_size"_a, "num_workers"_a, "folder"_a, "resume"_a, "overwrite"_a, "report"_a,
             nb::sig("def search(network: NetworkGraph, calibration: Samples, validation: Samples | None, "
                     "options: dict[str, typing.Any], seed: int, batch_size: int, num_workers: int, folder: "
                     "str, resume: bool, overwrite: bool, report: str) -> dict[str, typing.Any]"));
}

}  // namespace detent::python
