#include "detent/workflows/search_network.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "detent/core/name_pattern.h"
#include "detent/graph/graph_parameters.h"
#include "detent/passes/post_training/loop_bodies.h"
#include "detent/search/search.h"
#include "detent/workflows/network_data.h"
#include "detent/workflows/resource_use.h"

namespace detent {

Table search_settings(const SearchOptions& options, int64_t seed, const Graph& network, int64_t samples) {
  Table settings = write_fields(options);
  for (const char* free : {"time", "evaluations", "points", "winners"}) settings.erase(free);
  settings["seed"] = seed;
  settings["training_samples"] = samples;
  settings["network_before"] = fmt::format("{:016x}", network_fingerprint(network));
  return settings;
}

SearchReport search_network(Graph network, const SearchSamples& samples, const NetworkSearch& search,
                            const RandomSource& random, PassContext& context) {
  const SearchOptions& options = search.options;
  run_pipeline(network, passes_of(options.prepare), "--prepare", context);
  context.where = search.where;
  if (const auto layers = layers_in_bodies(network); !layers.empty())
    context.warn(
        fmt::format("{}: stay in float, in bodies of loops: {}", search.where, listed_names(layers)));
  JudgedSamples judged =
      judged_samples(samples.validation, samples.is_divided ? samples.validation : samples.training,
                     options.eval_samples, random);
  const int64_t held_out = &samples.validation == &samples.training
                               ? 0
                               : std::min(samples.validation.size(), judged.inputs->size());
  if (search.begins) search.begins(judged, held_out);
  const SearchRequest request{.network = std::move(network),
                              .samples = std::move(judged),
                              .options = options,
                              .seed = static_cast<uint64_t>(search.seed),
                              .folder = search.folder,
                              .resumes = search.resumes,
                              .start = search.start,
                              .latency = measured_latency};
  return search_formats(request, context);
}

Table search_results(const SearchReport& report) {
  List points;
  for (const SearchPoint& point : report.points) {
    const bool is_accuracy = report.quality == QualityKind::kAccuracy;
    points.push_back(Table{{"name", point.file},
                           {"cost", point.costs.value(report.cost)},
                           {"value", is_accuracy ? point.quality.accuracy() : point.quality.sqnr_db()},
                           {"on_front", true},
                           {"chosen", point.is_best}});
  }
  Table results;
  results["pareto"] = Table{{"cost_name", enum_name(report.cost)},
                            {"value_name", enum_name(report.quality)},
                            {"points", std::move(points)}};
  results["search"] = report_value(report);
  return results;
}

}  // namespace detent
