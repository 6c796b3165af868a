#pragma once

#include <functional>
#include <string>
#include <vector>

#include "detent/cli/run_options.h"
#include "detent/core/value.h"

namespace detent {

/// One field of RunOptions as the command line knows it.
struct OptionField {
  std::string name;      // "batch_size"
  std::string flag;      // "--batch-size"
  std::string help;      // with type and default
  bool is_flag = false;  // a boolean: may stand without a value
  /// The value that a flag's text stands for: "NA" is NA where the field may be none, commas separate the
  /// elements of a list; text that is no number stays text, for from_value to refuse.
  std::function<Value(const std::string& text)> parse;
};

const std::vector<OptionField>& option_fields();
const OptionField& option_field(const std::string& name);

/// Sets the field; `where` (flag, or file and key) begins the message. Throws Error on a wrong type, range or
/// name.
void set_option(RunOptions& options, const std::string& name, const Value& value, const std::string& where);

/// The same for what stands after the field's flag; throws UsageError.
void set_flag(RunOptions& options, const std::string& name, const Value& value);

/// For the table of options: strings without quotes.
std::string option_text(const Value& value);

}  // namespace detent
