#pragma once

#include <array>
#include <string_view>

namespace detent::page_parts {

/// The files in page/, embedded in the library by report/CMakeLists.txt.
extern const std::string_view kPage;
extern const std::string_view kStyle;
extern const std::array<std::string_view, 3> kScripts;

}  // namespace detent::page_parts
