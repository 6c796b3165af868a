#include <fmt/format.h>

#include <cstdlib>
#include <memory>

#include <CLI/CLI.hpp>

#include "detent/cli/commands/command.h"
#include "detent/core/error.h"
#include "detent/core/progress.h"
#include "detent/core/text_table.h"
#include "detent/datasets/fetch.h"
#include "detent/training/duration.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRootHelp = "folder of data files; default: $DETENT_DATA, else ~/.cache/detent";

/// Where data sets look for files, and new ones are put.
fs::path data_root(const std::string& given) {
  if (!given.empty()) return given;
  const char* data = std::getenv("DETENT_DATA");
  if (data != nullptr && *data != '\0') return data;
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0')
    fail("neither DETENT_DATA nor HOME is set; give the folder with --data-dir");
  return fs::path(home) / ".cache" / "detent";
}

double megabytes(uint64_t bytes) { return static_cast<double>(bytes) / 1e6; }

uint64_t download_size(const PublishedDataset& published) {
  uint64_t size = 0;
  for (const PublishedFile& file : published.files) size += file.size;
  return size;
}

/// A bar a file, in megabytes.
class FetchProgress {
 public:
  void update(const std::string& file, uint64_t done, uint64_t total) {
    constexpr uint64_t kMegabyte = 1'000'000;
    if (file != file_) {
      file_ = file;
      shown_ = 0;
      progress_ = std::make_unique<Progress>(file + ", MB:",
                                             static_cast<int64_t>((total + kMegabyte - 1) / kMegabyte));
    }
    const auto now = static_cast<int64_t>(done / kMegabyte);
    if (now == shown_) return;
    shown_ = now;
    progress_->update(now);
  }

 private:
  std::string file_;
  int64_t shown_ = 0;
  std::unique_ptr<Progress> progress_;
};

int run_data_fetch(const std::vector<std::string>& args) {
  CLI::App app(
      "Download a published data set, check its digests and unpack it. What an interrupted run has received "
      "is kept "
      "and gone on from.",
      "detent data fetch");
  std::string name;
  std::string root;
  FetchOptions options;
  app.add_option("name", name, "mnist, fashion_mnist, cifar10 or cifar100")->required()->option_text(" ");
  app.add_option("--from", options.from, "folder, or address of one, that holds the published files")
      ->option_text("URL|FOLDER");
  app.add_option("--data-dir", root, kRootHelp)->option_text("FOLDER");
  app.add_option("--attempts", options.attempts, "how often a mirror is tried")
      ->check(CLI::Range(1, 100))
      ->option_text("N (5)");
  std::string max_time = "6h";
  app.add_option("--max-time", max_time, "when to give up; what was received is kept")
      ->option_text("TIME (6h)");
  app.add_option("--min-speed", options.least_speed,
                 "bytes a second: a mirror that sends less for 30 s is given up")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000'000}))
      ->option_text("N (1000)");
  if (!parse_arguments(app, args)) return 0;
  const PublishedDataset& published = published_dataset(name);
  options.root = data_root(root);
  options.max_time = std::chrono::seconds(Duration::from_value(max_time, "--max-time").seconds);
  FetchProgress progress;
  options.progress = [&](const std::string& file, uint64_t done, uint64_t total) {
    progress.update(file, done, total);
  };
  const Fetched fetched = fetch_dataset(published, options);
  print(fmt::format("{}: {} {}\n", published.name, fetched == Fetched::kNow ? "fetched to" : "is complete in",
                    (options.root / published.folder).string()));
  return 0;
}

int run_data_list(const std::vector<std::string>& args) {
  CLI::App app("List the data sets that can be fetched, and which of them are there.", "detent data list");
  std::string given;
  app.add_option("--data-dir", given, kRootHelp)->option_text("FOLDER");
  ResultOptions result_options;
  add_result_options(app, result_options);
  if (!parse_arguments(app, args)) return 0;
  const fs::path root = data_root(given);
  TextTable table({"data set", "download", "in " + root.string()});
  List rows;
  for (const PublishedDataset& published : published_datasets()) {
    table.add_row({published.name, fmt::format("{:.1f} MB", megabytes(download_size(published))),
                   is_fetched(published, root) ? "complete" : "-"});
    rows.push_back(Table{{"data_set", published.name},
                         {"download_bytes", static_cast<int64_t>(download_size(published))},
                         {"folder", (root / published.folder).string()},
                         {"is_complete", is_fetched(published, root)}});
  }
  CommandResults results("data list", result_options);
  results.say(table.to_text());
  results.add("data_sets", std::move(rows));
  results.finish();
  return 0;
}

const std::vector<Command>& data_commands() {
  static const std::vector<Command> kCommands = {
      {"fetch", "download a published data set", run_data_fetch},
      {"list", "list what can be fetched, and what is there", run_data_list},
  };
  return kCommands;
}

}  // namespace

int run_data(const std::vector<std::string>& args) {
  return run_group({.name = "data", .help = "Fetch published data sets.", .commands = data_commands()}, args);
}

}  // namespace detent
