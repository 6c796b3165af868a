#pragma once

#include <string>
#include <string_view>

namespace detent {

/// The text form of a format that other programs call so ("mxfp4", "bfloat16", "Q4_0", "ap_fixed<8,4>"),
/// upper case and hyphens included; "" where nothing is known. Such names are proposed, never taken, as some
/// mean a scheme of more than the format.
std::string format_called(std::string_view name);

}  // namespace detent
