#pragma once

#include <string>

namespace detent::python {

/// Throws Error where a file of this name exists, unless it may be overwritten.
void refuse_existing(const std::string& path, bool overwrite);

}  // namespace detent::python
