#include "detent/onnx/weights_file.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "detent/core/error.h"
#include "detent/files/checksums.h"
#include "detent/files/file_roles.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

constexpr size_t kDigits = 16;
constexpr std::string_view kEnding = ".data";

bool is_name_for(const std::string& model, std::string_view name) {
  if (name.size() != model.size() + 1 + kDigits + kEnding.size() || !name.starts_with(model + ".") ||
      !name.ends_with(kEnding))
    return false;
  return std::ranges::all_of(name.substr(model.size() + 1, kDigits),
                             [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

/// A model in ONNX's format begins with its IR version.
bool is_model_with(const fs::path& file, const std::string& name) {
  constexpr auto kIrVersion = std::byte{0x08};
  std::error_code error;
  if (!fs::is_regular_file(file, error) || fs::file_size(file, error) <= name.size()) return false;
  const auto mapped = map_file(file, ReadAs::kOwnResult);
  const std::span<const std::byte> bytes = mapped->bytes();
  const auto sought = std::as_bytes(std::span(name));
  return bytes.front() == kIrVersion &&
         std::search(bytes.begin(), bytes.end(), sought.begin(), sought.end()) != bytes.end();
}

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  return files;
}

/// Files of weights that the model there names.
std::vector<std::string> weights_named_by(const fs::path& model) {
  std::vector<std::string> names;
  if (!fs::exists(model)) return names;
  for (const fs::path& file : files_in(model.parent_path())) {
    const std::string name = file.filename().string();
    if (is_name_for(model.filename().string(), name) && is_model_with(model, name)) names.push_back(name);
  }
  return names;
}

std::string digest_of(const std::vector<std::span<const std::byte>>& weights) {
  std::vector<uint64_t> checksums;
  for (const auto data : weights) {
    checksums.push_back(data.size());
    checksums.push_back(crc32(data));
  }
  return digest(DigestKind::kSha256, std::as_bytes(std::span(checksums))).substr(0, kDigits);
}

std::vector<uint64_t> positions_of(const std::vector<std::span<const std::byte>>& weights) {
  constexpr uint64_t kPage = 4096;
  std::vector<uint64_t> begins;
  uint64_t end = 0;
  for (const auto data : weights) {
    begins.push_back((end + kPage - 1) / kPage * kPage);
    end = begins.back() + data.size();
  }
  return begins;
}

bool holds(const fs::path& file, const std::vector<std::span<const std::byte>>& weights,
           const std::vector<uint64_t>& begins) {
  const auto mapped = map_file(file, ReadAs::kOwnResult);
  const std::span<const std::byte> bytes = mapped->bytes();
  if (bytes.size() != begins.back() + weights.back().size()) return false;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (!std::ranges::equal(bytes.subspan(begins[i], weights[i].size()), weights[i])) return false;
  }
  return true;
}

}  // namespace

OnnxWeightsFile::OnnxWeightsFile(const fs::path& model)
    : folder_(fs::absolute(model).parent_path()), model_(model.filename().string()) {
  if (fs::exists(folder_)) replaced_ = weights_named_by(folder_ / model_);
}

std::vector<uint64_t> OnnxWeightsFile::write(const std::vector<std::span<const std::byte>>& weights) {
  name_ = fmt::format("{}.{}{}", model_, digest_of(weights), kEnding);
  const std::vector<uint64_t> begins = positions_of(weights);
  if (fs::exists(folder_ / name_)) {
    if (!holds(folder_ / name_, weights, begins))
      fail("{} exists, and holds something else: move it away", (folder_ / name_).string());
    return begins;
  }
  file_.emplace(folder_ / name_);
  for (size_t i = 0; i < weights.size(); ++i) {
    file_->write(std::string(begins[i] - file_->position(), '\0'));
    file_->write(weights[i]);
  }
  return begins;
}

void OnnxWeightsFile::commit() {
  if (file_) file_->commit();
}

void OnnxWeightsFile::remove_replaced() const {
  const FileRoles* roles = FileRoles::current();
  for (const std::string& name : replaced_) {
    if (name == name_ || (roles != nullptr && roles->is_read(folder_ / name))) continue;
    const auto is_named = [&](const fs::path& file) {
      return !file.string().ends_with(kEnding) && is_model_with(file, name);
    };
    std::error_code ignored;  // it is in nobody's way
    if (std::ranges::none_of(files_in(folder_), is_named)) fs::remove(folder_ / name, ignored);
  }
}

}  // namespace detent
