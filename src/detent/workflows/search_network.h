#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "detent/core/value.h"
#include "detent/datasets/dataset.h"
#include "detent/graph/graph.h"
#include "detent/passes/pass.h"
#include "detent/search/judge.h"
#include "detent/search/options.h"
#include "detent/search/report.h"
#include "detent/workflows/random_source.h"

namespace detent {

/// Settings that a resumed search must share with the one that stopped.
Table search_settings(const SearchOptions& options, int64_t seed, const Graph& network, int64_t samples);

/// Samples to calibrate on and to judge networks by; both may be the same. `is_divided`: they are parts of
/// one set, of which none serves for both.
struct SearchSamples {
  const Dataset& training;
  const Dataset& validation;
  bool is_divided = false;
};

struct NetworkSearch {
  SearchOptions options;
  int64_t seed = 0;
  std::filesystem::path folder = {};  // of its files (search/search.h)
  bool resumes = false;
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  std::string where = {};  // begins messages of options
  /// Called before the search with what networks are judged by, and how much of that is held out.
  std::function<void(const JudgedSamples& judged, int64_t held_out)> begins = {};
};

/// Prepares a network in float and searches its formats.
SearchReport search_network(Graph network, const SearchSamples& samples, const NetworkSearch& search,
                            const RandomSource& random, PassContext& context);

/// The results of a search as docs/results.md says: keys "pareto" and "search".
Table search_results(const SearchReport& report);

}  // namespace detent
