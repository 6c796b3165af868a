#pragma once

#include <string>
#include <vector>

#include "detent/cli/run_config.h"
#include "detent/core/fields.h"
#include "detent/core/value.h"

namespace CLI {
class App;
}

namespace detent {

/// "a,b" as "a" and "b".
std::vector<std::string> parts_of(const std::string& text);

/// Fields of a struct as flags: "num_samples" is --num-samples.
class FieldFlags {
 public:
  explicit FieldFlags(std::vector<FieldDescription> fields);

  /// Adds a flag for each option of `command`, those that are usual under `group`, and hidden ones for former
  /// names. This must outlive `app`.
  void bind(CLI::App& app, std::string_view command, const std::string& group);
  /// Values from the command line, by field. Text that is no number stays text, for the struct to refuse.
  Table given(const CLI::App& app) const;

 private:
  std::vector<FieldDescription> fields_;
  std::vector<std::string> texts_;
};

/// A list of formats that was cut at commas is put together where these stand within a format:
/// "int4,fixed:width=6,frac_width=3" is two.
Value with_whole_formats(const Value& value);

/// A message about a key of the table that flags fill, as one about its flag.
std::string about_flags(const std::string& message, const std::string& where);

/// Calls `check`, which throws Error "WHERE: key "num_samples": ..."; such is a UsageError "--num-samples:
/// ..." then.
template <class Check>
void check_flags(const std::string& where, const Check& check) {
  try {
    check();
  } catch (const Error& error) {
    throw UsageError(about_flags(error.what(), where));
  }
}

/// RunOptions from the command line of train, test, transform and quantize.
struct RunArguments {
  std::string command;
  std::string config;
  std::vector<std::string> texts;  // of option_fields(), in their order
};

/// Binds a flag for each field of RunOptions that the command reads, and --config. `arguments` must outlive
/// `app`.
void add_run_options(CLI::App& app, RunArguments& arguments);

/// Defaults, the file and the command line, merged. Throws UsageError and Error as make_run_config does.
RunConfig merged_run_config(const CLI::App& app, const RunArguments& arguments,
                            const std::string& usual_dataset = "");

/// Prints the options, of several workers once, and runs the command in the half with libtorch.
void start_run(const std::string& command, const RunConfig& config);

}  // namespace detent
