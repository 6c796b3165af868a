#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/files/tensor_summary.h"

namespace detent {

/// The arrays of a NumPy .npz file, a zip archive of .npy files, stored (numpy.savez) or deflated
/// (savez_compressed); names without ".npy", in the order of the archive. Stored arrays borrow from the
/// mapped file as `read_npy` does; deflated ones are unpacked. Throws Error naming the
/// file and the array on what `read_npy` refuses, a damaged archive or array, and entries that are not .npy.
std::vector<std::pair<std::string, Tensor>> read_npz(const std::filesystem::path& path);

/// Reads the headers only.
std::vector<TensorSummary> summarize_npz(const std::filesystem::path& path);

}  // namespace detent
