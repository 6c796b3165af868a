#pragma once

#include <optional>
#include <string>
#include <vector>

#include "detent/core/text_table.h"
#include "detent/core/value.h"
#include "detent/search/sensitivities.h"
#include "detent/search/study.h"

namespace detent {

/// The format of one operand of a network that was found.
struct ChosenFormat {
  std::string node;
  std::string operand;
  std::string format;
  int64_t bits = 0;  // that storing the operand takes
};

/// A network of the front.
struct SearchPoint {
  std::string file;  // in the folder of the search
  Quality quality;
  Costs costs;
  bool improved = false;
  bool is_best = false;
  std::vector<ChosenFormat> formats;
};

/// Effect of one format of one operand alone.
struct OperandSensitivity {
  ChosenFormat chosen;
  double loss = 0;  // distortion of the output
};

/// All that a search has found: what is printed and written as search.json, and what a page can be drawn
/// from.
struct SearchReport {
  std::string objective;
  std::string strategy;
  std::string state;  // why it ended, or "running"
  uint64_t seed = 0;
  double evaluations = 0;
  int64_t samples = 0;
  QualityKind quality = QualityKind::kAccuracy;
  CostKind cost = CostKind::kBytes;
  bool is_met = false;              // whether the best network is within all bounds
  Quality reference;                // the float network
  std::vector<SearchPoint> points;  // the front, by ascending cost
  std::vector<OperandSensitivity> sensitivities;
  int64_t sensitivity_samples = 0;
  struct Pair {
    std::string first;
    std::string second;
    double correlation = 0;
  };
  std::vector<Pair> pairs;  // of nodes that add to one residual
};

/// "points/118340-1f3a9c2e.mz": bytes, and a hash that tells networks of equal size apart.
std::string point_file(const Trial& trial);

/// At most `most` points of the front, the best network among them.
SearchReport make_report(const Study& study, const Sensitivities& found, const Quality& reference,
                         size_t most);
/// The trials that its points stand for, in their order.
std::vector<const Trial*> reported_trials(const Study& study, size_t most);

Value report_value(const SearchReport& report);
TextTable front_table(const SearchReport& report);
/// The operands that suffer most from the smallest format, worst first.
TextTable sensitivity_table(const SearchReport& report, size_t most);

}  // namespace detent
