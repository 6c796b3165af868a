#include "detent/cli/results.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <string>

#include <fmt/format.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include "detent/core/error.h"
#include "detent/core/log.h"
#include "detent/core/text.h"
#include "detent/files/file.h"
#include "detent/files/json.h"
#include "detent/report/page.h"

namespace detent {

/// A sink of the log that keeps warnings.
struct CommandResults::Warnings final : spdlog::sinks::base_sink<std::mutex> {
  List texts;

  void sink_it_(const spdlog::details::log_msg& message) override {
    texts.emplace_back(std::string(message.payload.data(), message.payload.size()));
  }
  void flush_() override {}
};

void claim_report(const ResultOptions& options) {
  const std::optional<std::string>& report = options.report;
  if (!report) return;
  if (!report->ends_with(".html"))
    throw UsageError(fmt::format("--report: got \"{}\", expected a name that ends in .html", *report));
  if (std::filesystem::is_regular_file(*report) && !is_report_page(*report))
    fail("--report: {} exists, and is no report: choose another name", *report);
  claim_output(*report, "--report", options.overwrite);
}

Table results_table(const std::string& command) {
  return {
      {"schema", "detent results"}, {"schema_version", 1}, {"command", command}, {"version", DETENT_VERSION}};
}

CommandResults::CommandResults(const std::string& command, ResultOptions options)
    : options_(std::move(options)), table_(results_table(command)) {
  if (!are_kept()) return;
  warnings_ = std::make_shared<Warnings>();
  warnings_->set_level(spdlog::level::warn);
  spdlog::default_logger()->sinks().push_back(warnings_);
}

CommandResults::~CommandResults() {
  if (warnings_ != nullptr) std::erase(spdlog::default_logger()->sinks(), warnings_);
}

void CommandResults::say(std::string_view text) const {
  if (!options_.json) print(text);
}

void CommandResults::add(std::string_view key, Value value) {
  if (are_kept()) table_[key] = std::move(value);
}

void CommandResults::add_table(std::string_view key, const TextTable& table) {
  say(table.to_text());
  if (are_kept()) table_[key] = table_value(table);
}

void CommandResults::finish() {
  if (!are_kept()) return;
  table_["warnings"] = warnings_->texts;
  if (options_.report) write_file(*options_.report, report_page(table_));
  if (options_.json) {
    print(json_text(table_) + "\n");
  } else {
    print(fmt::format("report: {}\n", *options_.report));
  }
}

void print(std::string_view text) {
  const std::string shown = printable(text);
  const size_t written = std::fwrite(shown.data(), 1, shown.size(), stdout);
  if (written == shown.size() && std::fflush(stdout) == 0) return;
  if (errno != EPIPE) fail("cannot write to standard output: {}", std::strerror(errno));
}

}  // namespace detent
