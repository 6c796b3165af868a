#include "detent/search/comparison.h"

#include <algorithm>
#include <map>
#include <memory>

#include <fmt/format.h>

#include "detent/core/error.h"
#include "detent/core/interruption.h"
#include "detent/core/progress.h"
#include "detent/passes/analysis/network_cost.h"
#include "detent/passes/post_training/static_quantize.h"
#include "detent/search/journal.h"
#include "detent/search/study.h"

namespace detent {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kPlace = "detent compare";

/// A float network, and what its activations do on the calibration samples.
struct Prepared {
  Graph graph;
  MeasuredNetwork measured;
};

class Comparison {
 public:
  Comparison(const ComparisonRequest& request, PassContext& context)
      : request_(request),
        context_(context),
        network_(prepared_by({})),
        judge_(network_, context.executor(), request.samples, request.samples.inputs->size()),
        journal_(request.journal, request.resumes, *context.group) {}

  ComparisonReport run() {
    ComparisonReport report{.plan = request_.plan,
                            .reference = judge_.reference(),
                            .reference_bytes = storage_bits(network_).weight_bytes(),
                            .reference_latency = latency_of_float(),
                            .networks = {}};
    const size_t formats = report.plan.formats.size();
    const size_t count = formats * report.plan.methods.size();
    Progress progress("comparing, networks", static_cast<int64_t>(count));
    for (size_t i = 0; i < count; ++i) {
      const size_t format = i % formats;
      const size_t method = i / formats;
      progress.update(static_cast<int64_t>(i), fmt::format("{} {}", report.plan.formats[format].text(),
                                                           report.plan.methods[method].name));
      std::optional<ComparedNetwork> measured = measure(format, method);
      if (measured) report.networks.push_back(std::move(*measured));
    }
    report.missing = count - report.networks.size();
    std::ranges::stable_sort(report.networks, {}, &ComparedNetwork::format);
    mark_front(report.networks);
    return report;
  }

 private:
  static constexpr size_t kNumbers = 10;

  bool is_over() const {
    return StopSignals::received() != 0 || (request_.deadline && Clock::now() >= *request_.deadline);
  }

  double latency_of_float() {
    const std::string key = "float";
    const std::vector<double>* known = journal_.find(key, 1);
    if (known == nullptr) journal_.add(key, {request_.latency(network_)});
    return journal_.find(key, 1)->front();
  }

  Graph prepared_by(const Table& passes) {
    Graph graph = request_.network;
    PassContext quiet = context_.quiet();
    if (!passes.empty()) run_pipeline(graph, passes, kPlace, quiet);
    return graph;
  }

  /// For all formats at once: each asks the statistics for what its own calibrator needs.
  const Prepared& prepared(const Table& before) {
    const std::string key = value_text(Value(before));
    if (const auto found = prepared_.find(key); found != prepared_.end()) return found->second;
    std::vector<StaticQuantizeOptions> all;
    for (const ComparedFormat& format : request_.plan.formats)
      all.push_back(request_.plan.quantize_options(format));
    Graph graph = prepared_by(before);
    MeasuredNetwork measured = measured_for(graph, all, context_);
    return prepared_.emplace(key, Prepared{std::move(graph), std::move(measured)}).first->second;
  }

  /// Nothing where the comparison is to end. What cannot be is a row with its reason.
  std::optional<ComparedNetwork> measure(size_t format, size_t method) {
    const std::string key =
        fmt::format("{} {}", request_.plan.formats[format].text(), request_.plan.methods[method].name);
    if (const std::vector<double>* known = journal_.find(key, kNumbers))
      return network_of(format, method, *known, key);
    if (is_over()) return std::nullopt;
    Graph graph;
    try {
      graph = quantized(format, method);
    } catch (const Error& error) {
      return ComparedNetwork{.format = format, .method = method, .obstacle = error.what()};
    }
    const std::optional<Quality> quality =
        judge_.judge(graph, judge_.samples(), [this] { return is_over(); });
    if (!quality) return std::nullopt;
    std::vector<double> numbers = quality->to_numbers();
    const StorageBits bits = storage_bits(graph);
    for (const double number : {static_cast<double>(bits.weight_bytes()), bits.average_weight_bits(),
                                bits.average_activation_bits(), request_.latency(graph)})
      numbers.push_back(number);
    journal_.add(key, numbers);
    return network_of(format, method, numbers, key);
  }

  Graph quantized(size_t format, size_t method) {
    const ComparedMethod& passes = request_.plan.methods[method];
    const ComparedFormat& compared = request_.plan.formats[format];
    const Prepared& from = prepared(request_.plan.before(compared, passes));
    PassContext quiet = context_.quiet();
    const StaticQuantizeOptions options = request_.plan.quantize_options(compared);
    Graph graph = quantized_for_integers(from.graph, from.measured, options, quiet).graph;
    if (!passes.after.empty()) run_pipeline(graph, passes.after, kPlace, quiet);
    return graph;
  }

  ComparedNetwork network_of(size_t format, size_t method, const std::vector<double>& numbers,
                             const std::string& key) const {
    const std::vector<double> quality(numbers.begin(), numbers.end() - 4);
    const double* costs = numbers.data() + quality.size();
    return {.format = format,
            .method = method,
            .quality = Quality::from_numbers(quality, journal_.place(key)),
            .weight_bytes = static_cast<int64_t>(costs[0]),
            .weight_bits = costs[1],
            .activation_bits = costs[2],
            .latency = costs[3]};
  }

  static void mark_front(std::vector<ComparedNetwork>& networks) {
    std::vector<CostAndLoss> points;
    std::vector<size_t> places;
    for (size_t i = 0; i < networks.size(); ++i) {
      if (!networks[i].obstacle.empty() || !networks[i].quality.is_finite()) continue;
      points.push_back({static_cast<double>(networks[i].weight_bytes), networks[i].quality.distortion()});
      places.push_back(i);
    }
    for (const size_t point : pareto_front(points)) networks[places[point]].on_front = true;
  }

  const ComparisonRequest& request_;
  PassContext& context_;
  Graph network_;
  Judge judge_;
  Journal journal_;
  std::map<std::string, Prepared> prepared_;
};

Table network_value(const ComparedNetwork& network, const ComparisonPlan& plan) {
  const ComparedFormat& format = plan.formats[network.format];
  Table row{{"weights", format.weights},
            {"activations", format.activations},
            {"method", plan.methods[network.method].name}};
  if (!network.obstacle.empty()) {
    row["obstacle"] = network.obstacle;
    return row;
  }
  if (network.quality.labelled > 0) {
    row["accuracy"] = network.quality.accuracy();
    row["standard_error"] = network.quality.standard_error();
    row["correct"] = network.quality.correct;
  }
  row["samples"] = network.quality.samples;
  if (network.quality.divergence > 0)
    row["kl_divergence"] = network.quality.divergence / static_cast<double>(network.quality.samples);
  row["sqnr_db"] = network.quality.sqnr_db();
  row["weight_bytes"] = network.weight_bytes;
  row["weight_bits"] = network.weight_bits;
  row["activation_bits"] = network.activation_bits;
  row["latency_ms"] = network.latency * 1e3;
  row["on_front"] = network.on_front;
  return row;
}

/// Cells after the names.
std::vector<std::string> quality_cells(const Quality& quality, bool has_labels, bool has_classes) {
  std::vector<std::string> cells;
  if (has_labels)
    cells.push_back(fmt::format("{:.4f} +- {:.4f}", quality.accuracy(), quality.standard_error()));
  if (has_classes)
    cells.push_back(fmt::format(
        "{:.3g}", quality.divergence / static_cast<double>(std::max<int64_t>(1, quality.samples))));
  cells.push_back(fmt::format("{:.1f}", quality.sqnr_db()));
  return cells;
}

}  // namespace

ComparisonReport compare_formats(const ComparisonRequest& request, PassContext& context) {
  if (context.group->size() > 1)
    fail("detent compare runs in one process, got {} workers", context.group->size());
  return Comparison(request, context).run();
}

TextTable comparison_table(const ComparisonReport& report) {
  const bool has_labels = report.reference.labelled > 0;
  const bool has_classes = std::ranges::any_of(
      report.networks, [](const ComparedNetwork& network) { return network.quality.divergence > 0; });
  std::vector<std::string> header = {"", "weights", "activations", "method"};
  if (has_labels) header.emplace_back("accuracy");
  if (has_classes) header.emplace_back("KL divergence");
  for (const char* name : {"SQNR, dB", "bytes", "bits a weight", "ms a sample", "front"})
    header.emplace_back(name);
  TextTable table(header);
  const auto add = [&](std::vector<std::string> cells, const std::vector<std::string>& more) {
    cells.insert(cells.end(), more.begin(), more.end());
    cells.resize(header.size());
    table.add_row(std::move(cells));
  };
  std::vector<std::string> floats = quality_cells(report.reference, has_labels, has_classes);
  floats.back() = "";
  for (const std::string& cell : {fmt::format("{}", report.reference_bytes), std::string("32"),
                                  fmt::format("{:.3g}", report.reference_latency * 1e3)})
    floats.push_back(cell);
  add({"", "float32", "float32", ""}, floats);
  for (size_t i = 0; i < report.networks.size(); ++i) {
    const ComparedNetwork& network = report.networks[i];
    const ComparedFormat& format = report.plan.formats[network.format];
    std::vector<std::string> cells = {fmt::format("{}", i + 1), format.weights, format.activations,
                                      report.plan.methods[network.method].name};
    if (!network.obstacle.empty()) {
      add(std::move(cells), {"not possible"});
      continue;
    }
    std::vector<std::string> numbers = quality_cells(network.quality, has_labels, has_classes);
    for (const std::string& cell :
         {fmt::format("{}", network.weight_bytes), fmt::format("{:.2f}", network.weight_bits),
          fmt::format("{:.3g}", network.latency * 1e3), std::string(network.on_front ? "*" : "")})
      numbers.push_back(cell);
    add(std::move(cells), numbers);
  }
  return table;
}

Value comparison_value(const ComparisonReport& report) {
  List networks;
  for (const ComparedNetwork& network : report.networks)
    networks.emplace_back(network_value(network, report.plan));
  Table floats{{"weight_bytes", report.reference_bytes},
               {"samples", report.reference.samples},
               {"latency_ms", report.reference_latency * 1e3}};
  if (report.reference.labelled > 0) {
    floats["accuracy"] = report.reference.accuracy();
    floats["standard_error"] = report.reference.standard_error();
    floats["correct"] = report.reference.correct;
  }
  return Table{{"float", std::move(floats)},
               {"networks", std::move(networks)},
               {"missing", static_cast<int64_t>(report.missing)}};
}

}  // namespace detent
