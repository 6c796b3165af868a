#pragma once

#include <regex>
#include <span>
#include <string>

namespace detent {

/// A regular expression for names of nodes or parameters, which must match the whole name. Throws Error,
/// beginning with `where`, on text that is none.
std::regex name_pattern(const std::string& text, const std::string& where);

/// `"layr1.*" matches no node: did you mean "layer1_0_conv1"? (nodes: conv1, layer1_0_conv1, ...)`
std::string unmatched_pattern_message(const std::string& pattern, std::span<const std::string> names);

}  // namespace detent
