#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "detent/cli/command_description.h"

namespace detent {
namespace {

/// Text for roff: backslashes and hyphens as they are typed, and no line that begins like a macro.
std::string in_roff(const std::string& text) {
  std::string escaped;
  for (const char letter : text) {
    const bool begins_line = escaped.empty() || escaped.back() == '\n';
    if (begins_line && (letter == '.' || letter == '\'')) escaped += "\\&";
    if (letter == '\\') {
      escaped += "\\e";
    } else if (letter == '-') {
      escaped += "\\-";
    } else {
      escaped += letter;
    }
  }
  return escaped;
}

std::string heading_of(const OptionDescription& option) {
  std::vector<std::string> names = option.flags;
  if (!option.place.empty()) names.insert(names.begin(), option.place);
  std::string text = fmt::format("\\fB{}\\fR", in_roff(fmt::format("{}", fmt::join(names, ", "))));
  if (!option.value.empty() && !option.flags.empty())
    text += fmt::format(" \\fI{}\\fR", in_roff(option.value));
  return text;
}

}  // namespace

std::string manual_page(std::span<const CommandDescription> commands) {
  std::string page = fmt::format(
      ".TH DETENT 1 \"\" \"detent {}\" \"Neural networks on fewer bits\"\n"
      ".SH NAME\ndetent, ch \\- quantize neural networks\n"
      ".SH SYNOPSIS\n.B detent\n.I command\n.RI [ arguments ]\n"
      ".SH DESCRIPTION\n"
      "Detent trains or imports a network, profiles the statistics of its weights and activations, quantizes "
      "it to any\n"
      "number format, evaluates, fine\\-tunes and exports it, and executes it in integers.\n"
      "What it lists (formats, passes, models, data sets, statistics) is described by\n.B detent help\n.IR "
      "NAME .\n"
      ".SH COMMANDS\n",
      DETENT_VERSION);
  for (const CommandDescription& command : commands) {
    page += fmt::format(".SS {}\n{}\n", in_roff(command.name), in_roff(command.help));
    for (const OptionDescription& option : command.options)
      page += fmt::format(".TP\n{}\n{}\n", heading_of(option), in_roff(option.help));
  }
  page +=
      ".SH ENVIRONMENT\n"
      ".TP\n\\fBDETENT_DATA\\fR\nfolder of data files\n"
      ".TP\n\\fBDETENT_SIMD_TARGET\\fR\ninstruction set of the kernels, as \\fB\\-\\-simd\\-target\\fR: see\n"
      "\\fBdetent version \\-\\-simd\\fR\n"
      ".TP\n\\fBNO_COLOR\\fR\nturns colours off\n"
      ".SH EXIT STATUS\n0 where all went well, 1 for an error, 2 for a wrong command line, 128 and the "
      "signal's number\n"
      "where one stopped the program.\n";
  return page;
}

}  // namespace detent
