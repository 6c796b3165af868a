#include "detent/graph/loop.h"
#include "detent/workflows/compare_network.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "detent/core/error.h"
#include "detent/graph/graph_parameters.h"
#include "detent/workflows/network_data.h"
#include "detent/workflows/resource_use.h"

namespace detent {
namespace {

using Clock = std::chrono::steady_clock;

std::optional<Clock::time_point> deadline(const NetworkComparison& comparison) {
  if (!comparison.options.time) return std::nullopt;
  const std::chrono::duration<double> span(comparison.options.time->seconds);
  return comparison.start + std::chrono::duration_cast<Clock::duration>(span);
}

}  // namespace

std::vector<FieldDescription> comparison_quantization_options() {
  constexpr std::array kOfRows = {"weights", "formats", "bits", "report"};
  std::vector<FieldDescription> fields = find_pass("static_quantize").options;
  std::erase_if(fields, [&](const FieldDescription& field) {
    return std::ranges::find(kOfRows, field.name) != kOfRows.end();
  });
  for (FieldDescription& field : fields) {
    if (field.name == "activations")
      field.help = "format of inputs of layers with weights, where formats names none";
  }
  return fields;
}

void check_compared_samples(const ComparedSamples& samples) {
  if (samples.test.size_count() > 1)
    fail("{}: samples of {} sizes, expected one: networks are compared by the same outputs for each sample",
         samples.test.source(), samples.test.size_count());
}

Graph network_to_compare(const Graph& network, const Dataset& calibration, const std::string& file) {
  Graph graph = without_batches_that_mix(network, calibration);
  if (holds_quantizers(graph))
    fail("{}: the network is quantized already: a comparison begins with one in float", file);
  return graph;
}

int64_t judged_count(const ComparisonOptions& options, const Dataset& test) {
  return std::min(options.eval_samples.value_or(test.size()), test.size());
}

Table comparison_settings(const NetworkComparison& comparison, const Graph& network,
                          const ComparedSamples& samples) {
  Table settings{{"prepare", comparison.options.prepare}, {"quantization", comparison.quantization}};
  settings["seed"] = comparison.seed;
  settings["calibration_samples"] = samples.calibration.size();
  settings["evaluation_samples"] = judged_count(comparison.options, samples.test);
  settings["network_before"] = fmt::format("{:016x}", network_fingerprint(network));
  return settings;
}

ComparisonReport compare_network(Graph network, const ComparedSamples& samples,
                                 const NetworkComparison& comparison, const RandomSource& random,
                                 PassContext& context) {
  context.where = comparison.where;
  context.open_calibration();  // the first draw of random numbers, as in `detent quantize`
  JudgedSamples judged =
      judged_samples(samples.test, samples.test, judged_count(comparison.options, samples.test), random);
  find_pass("init_metadata").run(network, {}, context);
  const ComparisonRequest request{
      .network = std::move(network),
      .samples = std::move(judged),
      .plan = plan_comparison(comparison.options, comparison.quantization, comparison.where),
      .journal = comparison.journal,
      .resumes = comparison.resumes,
      .deadline = deadline(comparison),
      .latency = measured_latency};
  return compare_formats(request, context);
}

Table compared_front(const ComparisonReport& report) {
  List points;
  const bool has_labels = report.reference.labelled > 0;
  for (const ComparedNetwork& network : report.networks) {
    if (!network.obstacle.empty()) continue;
    points.push_back(Table{{"name", fmt::format("{} {}", report.plan.formats[network.format].text(),
                                                report.plan.methods[network.method].name)},
                           {"cost", static_cast<double>(network.weight_bytes)},
                           {"value", has_labels ? network.quality.accuracy() : network.quality.sqnr_db()},
                           {"on_front", network.on_front},
                           {"chosen", false}});
  }
  return {{"cost_name", "bytes"},
          {"value_name", has_labels ? "accuracy" : "sqnr"},
          {"points", std::move(points)}};
}

}  // namespace detent
