#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "detent/cli/run_options.h"
#include "detent/core/fields.h"
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

/// "--batch-size" of "batch_size".
std::string option_flag(std::string name);

const std::vector<OptionField>& option_fields();
const OptionField& option_field(const std::string& name);

/// Sets the field; `where` (flag, or file and key) begins the message. Throws Error on a wrong type, range or
/// name.
void set_option(RunOptions& options, const std::string& name, const Value& value, const std::string& where);

/// The same for what stands after the field's flag; throws UsageError.
void set_flag(RunOptions& options, const std::string& name, const Value& value);

/// For the table of options: strings without quotes.
std::string option_text(const Value& value);

/// Headlines of the help of train, test, transform, quantize and search, in the order of the help.
std::span<const char* const> option_groups();

/// The headline that an option (a field of RunOptions) stands under.
std::string_view option_group(std::string_view option);

/// Whether those who run the command usually give the option: the others stand in a longer help.
bool is_usual(std::string_view command, std::string_view option);

/// Whether the command reads the option. Those that do not refuse its flag; its key may stand in a
/// configuration file, which several commands share.
bool reads_option(std::string_view command, std::string_view option);

/// The commands that read it: "train, transform".
std::string readers_of(std::string_view option);

/// ", at least 1" or ", 0 to 4"; empty where anything is allowed.
std::string bounds_text(const Between& allowed);

/// Help of a field, with its type, range and default: "samples a batch (integer, at least 1; default 128)".
std::string field_meaning(const FieldDescription& field);

/// The same for a flag: the default without the quotes that a file has.
std::string flag_meaning(FieldDescription field);

}  // namespace detent
