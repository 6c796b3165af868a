#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>

#include "detent/graph/graph.h"
#include "detent/passes/pass.h"
#include "detent/search/judge.h"
#include "detent/search/options.h"
#include "detent/search/report.h"

namespace detent {

/// Files of a search, in its folder.
constexpr const char* kSearchReport = "search.json";
constexpr const char* kBestNetwork = "best.mz";
constexpr const char* kFrontFolder = "points";
constexpr const char* kSearchJournal = "evaluations.jsonl";

/// Inputs of a search.
struct SearchRequest {
  Graph network;  // in float, prepared
  JudgedSamples samples;
  SearchOptions options;
  uint64_t seed = 0;
  std::filesystem::path folder;  // of its files; the first worker's
  bool resumes = false;          // what the folder's journal holds is not measured again
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  std::function<double(const Graph&)> latency;  // seconds that the engine takes for a sample
};

/// Searches until the evaluations are spent, the time is up or a signal has come (StopSignals), and returns
/// what was found. At every moment the folder holds
///
///     search.json        the report, whose files are all there
///     best.mz            the best network so far
///     points/NAME.mz     the networks of the front
///     evaluations.jsonl  the journal
///
/// each as a whole, from the first measured network on.
SearchReport search_formats(const SearchRequest& request, PassContext& context);

}  // namespace detent
