#include <CLI/CLI.hpp>

#include "detent/cli/commands/command.h"
#include "detent/cli/commands/field_flags.h"
#include "detent/core/error.h"
#include "detent/search/comparison.h"
#include "detent/workflows/compare_network.h"

namespace detent {
namespace {

constexpr const char* kPlace = "detent compare";

}  // namespace

int run_compare(const std::vector<std::string>& args) {
  CLI::App app(
      "Quantize a network to several formats by several methods, with one calibration, and compare what "
      "comes of "
      "it: accuracy, divergence from the float network, bytes, latency, and the front of them. What was "
      "measured is "
      "kept: --resume goes on, with more formats and methods too.",
      kPlace);
  RunArguments run_arguments{"compare", {}, {}};
  FieldFlags own(describe_fields<ComparisonOptions>());
  own.bind(app, "compare", "Comparison");
  FieldFlags shared(comparison_quantization_options());
  shared.bind(app, "compare", "Quantization");
  add_run_options(app, run_arguments);
  if (!parse_arguments(app, args)) return 0;
  RunConfig config = merged_run_config(app, run_arguments);
  if (!config.options.load)
    throw UsageError("`detent compare` needs a trained network: `detent compare model.onnx`, or --load FILE");
  Table given;
  for (const auto& [name, value] : own.given(app)) given[name] = with_whole_formats(value);
  check_flags(kPlace, [&] {
    ComparisonOptions options;
    read_fields(options, given, kPlace);
    plan_comparison(options, shared.given(app), kPlace);
  });
  config.search = std::move(given);
  config.search["quantization"] = shared.given(app);
  start_run("compare", config);
  return 0;
}

}  // namespace detent
