#include "detent/search/report.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/ranges.h>

#include "detent/core/xxh64.h"

namespace detent {
namespace {

std::vector<ChosenFormat> formats_of(const SearchSpace& space, const Assignment& assignment) {
  std::vector<ChosenFormat> formats;
  for (size_t c = 0; c < assignment.size(); ++c) {
    const Choice& choice = space.choices[c];
    const ChoiceFormat& format = choice.formats[static_cast<size_t>(assignment[c])];
    formats.push_back({choice.name, choice.operand, format.text, format.bits});
  }
  return formats;
}

Table costs_value(const Costs& costs) {
  Table table{{"bytes", costs.bytes}, {"weight_bits", costs.weight_bits}, {"mac_bits", costs.mac_bits}};
  if (costs.latency) table["latency_ms"] = *costs.latency * 1e3;
  return table;
}

Table quality_value(const Quality& quality) {
  Table table{{"samples", quality.samples}, {"sqnr_db", quality.sqnr_db()}};
  if (quality.labelled > 0) {
    table["accuracy"] = quality.accuracy();
    table["standard_error"] = quality.standard_error();
    table["correct"] = quality.correct;
  }
  table["distortion"] = quality.distortion();
  return table;
}

/// By node, the operands' formats.
Table formats_value(const std::vector<ChosenFormat>& formats) {
  Table nodes;
  for (const ChosenFormat& format : formats) nodes.table(format.node)[format.operand] = format.format;
  return nodes;
}

std::string widths_text(const std::vector<ChosenFormat>& formats) {
  std::map<std::string, int> counts;
  for (const ChosenFormat& format : formats) {
    if (format.operand == kWeightOperand) ++counts[format.format];
  }
  std::vector<std::string> parts;
  for (const auto& [format, count] : counts) parts.push_back(fmt::format("{} {}", count, format));
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

std::string point_file(const Trial& trial) {
  const std::string text =
      fmt::format("{}{}", fmt::join(trial.assignment, ","), trial.improved ? " improved" : "");
  return fmt::format("points/{}-{:08x}.mz", trial.costs.bytes, xxh64(text) & 0xffffffffU);
}

std::vector<const Trial*> reported_trials(const Study& study, size_t most) {
  const std::vector<const Trial*> front = study.front();
  std::vector<CostAndLoss> points;
  for (const Trial* trial : front) points.push_back(study.point(*trial));
  std::vector<const Trial*> reported;
  for (const size_t i : spread(points, most)) reported.push_back(front[i]);
  const Trial* best = study.best();
  if (best != nullptr && std::ranges::find(reported, best) == reported.end()) reported.push_back(best);
  std::ranges::stable_sort(reported, {}, [&](const Trial* trial) { return study.point(*trial).cost; });
  return reported;
}

SearchReport make_report(const Study& study, const Sensitivities& found, const Quality& reference,
                         size_t most) {
  SearchReport report;
  report.objective = study.objective().text();
  report.seed = study.seed();
  report.evaluations = study.spent();
  report.samples = study.samples();
  report.quality = study.objective().quality();
  report.cost = study.objective().cost();
  report.reference = reference;
  const Trial* best = study.best();
  for (const Trial* trial : reported_trials(study, most)) {
    report.points.push_back({point_file(*trial), trial->quality, trial->costs, trial->improved, trial == best,
                             formats_of(study.space(), trial->assignment)});
  }
  report.is_met = best != nullptr && study.objective().meets_quality(best->quality) &&
                  study.objective().meets_costs(best->costs);
  const std::vector<Choice>& choices = study.space().choices;
  report.sensitivity_samples = found.samples;
  for (size_t c = 0; c < found.losses.size(); ++c) {
    for (size_t f = 0; f < found.losses[c].size(); ++f) {
      const ChoiceFormat& format = choices[c].formats[f];
      report.sensitivities.push_back(
          {{choices[c].name, choices[c].operand, format.text, format.bits}, found.losses[c][f]});
    }
  }
  for (const PairCorrelation& pair : found.pairs)
    report.pairs.push_back({choices[pair.first].name, choices[pair.second].name, pair.correlation});
  return report;
}

Value report_value(const SearchReport& report) {
  List points;
  std::string best;
  for (const SearchPoint& point : report.points) {
    if (point.is_best) best = point.file;
    points.push_back(Table{{"file", point.file},
                           {"improved", point.improved},
                           {"quality", quality_value(point.quality)},
                           {"costs", costs_value(point.costs)},
                           {"formats", formats_value(point.formats)}});
  }
  List sensitivities;
  for (const OperandSensitivity& one : report.sensitivities) {
    sensitivities.push_back(Table{{"node", one.chosen.node},
                                  {"operand", one.chosen.operand},
                                  {"format", one.chosen.format},
                                  {"bits", one.chosen.bits},
                                  {"distortion", one.loss}});
  }
  List pairs;
  for (const SearchReport::Pair& pair : report.pairs) {
    pairs.push_back(Table{{"first", pair.first}, {"second", pair.second}, {"correlation", pair.correlation}});
  }
  return Table{{"version", 1},
               {"objective", report.objective},
               {"is_met", report.is_met},
               {"strategy", report.strategy},
               {"seed", static_cast<int64_t>(report.seed)},
               {"state", report.state},
               {"evaluations", report.evaluations},
               {"quality", enum_name(report.quality)},
               {"cost", enum_name(report.cost)},
               {"float", quality_value(report.reference)},
               {"best", best},
               {"front", std::move(points)},
               {"sensitivity_samples", report.sensitivity_samples},
               {"sensitivities", std::move(sensitivities)},
               {"residual_pairs", std::move(pairs)}};
}

TextTable front_table(const SearchReport& report) {
  const bool has_labels = report.reference.labelled > 0;
  const bool has_latency = std::ranges::any_of(
      report.points, [](const SearchPoint& point) { return point.costs.latency.has_value(); });
  std::vector<std::string> header = {"", "bytes", "bits"};
  if (has_latency) header.emplace_back("ms");
  if (has_labels) header.emplace_back("accuracy");
  header.insert(header.end(), {"SQNR dB", "weights"});
  TextTable table(header);
  for (const SearchPoint& point : report.points) {
    std::vector<std::string> row = {point.is_best ? "best" : "", fmt::format("{}", point.costs.bytes),
                                    fmt::format("{:.3f}", point.costs.weight_bits)};
    if (has_latency) row.push_back(fmt::format("{:.3f}", point.costs.latency.value_or(0) * 1e3));
    if (has_labels) {
      row.push_back(
          fmt::format("{:.4f} +- {:.4f}", point.quality.accuracy(), point.quality.standard_error()));
    }
    row.push_back(fmt::format("{:.2f}", point.quality.sqnr_db()));
    row.push_back(widths_text(point.formats));
    table.add_row(std::move(row));
  }
  return table;
}

TextTable sensitivity_table(const SearchReport& report, size_t most) {
  TextTable table({"node", "operand", "format", "distortion"});
  std::vector<const OperandSensitivity*> worst;  // of each operand
  for (const OperandSensitivity& one : report.sensitivities) {
    const bool same = !worst.empty() && worst.back()->chosen.node == one.chosen.node &&
                      worst.back()->chosen.operand == one.chosen.operand;
    if (!same) {
      worst.push_back(&one);
    } else if (one.loss > worst.back()->loss) {
      worst.back() = &one;
    }
  }
  std::ranges::stable_sort(worst, std::greater<>(), &OperandSensitivity::loss);
  worst.resize(std::min(worst.size(), most));
  for (const OperandSensitivity* one : worst) {
    table.add_row(
        {one->chosen.node, one->chosen.operand, one->chosen.format, fmt::format("{:.3g}", one->loss)});
  }
  return table;
}

}  // namespace detent
