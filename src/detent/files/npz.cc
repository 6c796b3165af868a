#include "detent/files/array_files.h"

#include <string_view>

#include "detent/core/error.h"
#include "detent/files/zip.h"

namespace detent {
namespace {

constexpr std::string_view kEnding = ".npy";

/// "inputs" of "inputs.npy".
std::string array_name(const ZipReader& zip, const ZipReader::Entry& entry) {
  if (!entry.name.ends_with(kEnding)) {
    fail("{}: entry \"{}\" is no .npy file, so this is no .npz archive", zip.name(), entry.name);
  }
  return std::string(entry.name.substr(0, entry.name.size() - kEnding.size()));
}

std::string where(const ZipReader& zip, const std::string& array) {
  return fmt::format("{}: array \"{}\"", zip.name(), array);
}

}  // namespace

std::vector<std::pair<std::string, Tensor>> read_npz(const std::filesystem::path& path) {
  const ZipReader zip(path);
  std::vector<std::pair<std::string, Tensor>> arrays;
  for (const ZipReader::Entry& entry : zip.entries()) {
    const std::string name = array_name(zip, entry);
    const ZipReader::Unpacked content = zip.unpack(entry);
    arrays.emplace_back(name, parse_npy(content.bytes, content.owner, where(zip, name)));
  }
  return arrays;
}

std::vector<TensorSummary> summarize_npz(const std::filesystem::path& path) {
  const ZipReader zip(path);
  std::vector<TensorSummary> arrays;
  for (const ZipReader::Entry& entry : zip.entries()) {
    const std::string name = array_name(zip, entry);
    arrays.push_back(summarize_npy(zip.prefix(entry, kNpyPrefixBytes), entry.unpacked, where(zip, name)));
    arrays.back().name = name;
  }
  return arrays;
}

}  // namespace detent
