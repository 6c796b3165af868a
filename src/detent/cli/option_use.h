#pragma once

#include <span>
#include <string>
#include <string_view>

namespace detent {

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

}  // namespace detent
