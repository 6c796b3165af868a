#pragma once

#include <filesystem>

#include "detent/core/tensor.h"

namespace detent {

/// A table of finite numbers as float32 [rows, columns]: fields separated by commas, lines by LF or CRLF, the
/// same number of fields in each. The first line is skipped as a header when its first field is no number;
/// there is no quoting. Throws Error naming file, line and column of the first field that is no number, and
/// when nothing is left.
Tensor read_csv(const std::filesystem::path& path);

}  // namespace detent
