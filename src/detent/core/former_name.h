#pragma once

#include <string_view>

namespace detent {

/// A name of an earlier version, which is still understood, and what it is called now.
struct FormerName {
  const char* former;
  const char* present;
};

/// Warns that `kind` ("key", "pass", "option") `former` is called `present` now, once in a process.
void warn_of_former_name(std::string_view kind, std::string_view former, std::string_view present);

}  // namespace detent
