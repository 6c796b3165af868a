#pragma once

#include <algorithm>
#include <string_view>

#include "detent/passes/pass.h"

namespace detent {

inline bool has_option(const PassInfo& pass, std::string_view key) {
  return std::ranges::find(pass.options, key, &FieldDescription::name) != pass.options.end();
}

}  // namespace detent
