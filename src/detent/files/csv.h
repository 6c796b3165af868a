#pragma once

#include <filesystem>

#include "detent/core/tensor.h"

namespace detent {

/// A table of finite numbers as the nearest float32 [rows, columns], which is 0 below its range: fields
/// separated by commas, lines by LF or CRLF, the same number of fields in each. The first line is skipped as
/// a header when its first field is no number; there is no quoting. Throws Error naming file, line and column
/// of the first field that is no number or beyond float32, and when nothing is left.
Tensor read_csv(const std::filesystem::path& path);

}  // namespace detent
