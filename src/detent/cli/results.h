#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "detent/core/text_table.h"
#include "detent/core/value.h"

namespace detent {

/// Where results go besides, or instead of, text on standard output.
struct ResultOptions {
  bool json = false;
  std::optional<std::string> report = std::nullopt;  // a file, NAME.html
  bool overwrite = false;                            // a report that exists
};

/// Takes the report for a file that will be written (claim_output). Throws UsageError where it is not called
/// NAME.html, and Error where it would replace a file that is no report.
void claim_report(const ResultOptions& options);

/// First keys of every table of results.
Table results_table(const std::string& command);

/// Results of a command: text for people as it goes, and, where --json or --report asks for it, a table under
/// the keys of docs/results.md, printed or made a page when the command ends. Warnings that are logged
/// meanwhile belong to it.
class CommandResults {
 public:
  CommandResults(const std::string& command, ResultOptions options);
  ~CommandResults();
  CommandResults(const CommandResults&) = delete;
  CommandResults& operator=(const CommandResults&) = delete;

  /// Whether anything reads what `add` takes: else what is costly to find need not be found.
  bool are_kept() const { return options_.json || options_.report; }

  /// To standard output, unless that is to be JSON.
  void say(std::string_view text) const;
  void add(std::string_view key, Value value);
  /// Both, with the headings as keys.
  void add_table(std::string_view key, const TextTable& table);

  /// Prints the JSON and writes the page.
  void finish();

 private:
  struct Warnings;

  ResultOptions options_;
  Table table_;
  std::shared_ptr<Warnings> warnings_;
};

/// Writes to standard output, at once and escaped as `printable` does. Throws Error when that fails; a reader
/// that has gone away is no failure.
void print(std::string_view text);

}  // namespace detent
