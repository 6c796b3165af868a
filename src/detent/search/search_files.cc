#include "detent/search/winners.h"

#include <algorithm>

#include "detent/files/file.h"
#include "detent/files/json.h"
#include "detent/graph_files/graph_file.h"
#include "detent/search/search.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kInterval(2);

}  // namespace

SearchFiles::SearchFiles(fs::path folder, const SearchOptions& options, const Quality& reference)
    : folder_(std::move(folder)),
      strategy_(options.strategy),
      most_(static_cast<size_t>(options.points)),
      reference_(reference) {}

void SearchFiles::write_point(const Study& study, const Trial& trial, Winners& winners) {
  const fs::path path = folder_ / point_file(trial);
  if (fs::exists(path)) return;
  const Graph network =
      trial.improved ? winners.network(trial.assignment) : study.networks().make(trial.assignment);
  write_packed_graph(path, network);
}

void SearchFiles::remove_others(const SearchReport& report) const {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_ / kFrontFolder)) {
    const std::string name = "points/" + entry.path().filename().string();
    const bool is_named = std::ranges::find(report.points, name, &SearchPoint::file) != report.points.end();
    if (!is_named && name.ends_with(".mz")) fs::remove(entry.path());
  }
}

void SearchFiles::write(const Study& study, const Sensitivities& found, Winners& winners,
                        const std::string& state, bool must) {
  if (study.best() == nullptr || (!must && std::chrono::steady_clock::now() < next_)) return;
  SearchReport report = make_report(study, found, reference_, most_);
  report.strategy = strategy_;
  report.state = state;
  for (const Trial* trial : reported_trials(study, most_)) write_point(study, *trial, winners);
  const std::string best = point_file(*study.best());
  if (best != best_) write_file(folder_ / kBestNetwork, read_file(folder_ / best));
  best_ = best;
  write_json(folder_ / kSearchReport, report_value(report));
  remove_others(report);
  next_ = std::chrono::steady_clock::now() + kInterval;
}

}  // namespace detent
