#include "detent/passes/staged_runs/spilled_tensors.h"

#include <algorithm>

#include "detent/core/error.h"
#include "detent/files/scratch.h"

namespace detent {
namespace {

Tensor on_disk(const Tensor& tensor, const std::filesystem::path& directory) {
  std::filesystem::create_directories(directory);
  Tensor copy = Scratch(directory, 0).tensor(tensor.dtype(), tensor.shape());
  std::ranges::copy(tensor.bytes(), copy.bytes().begin());
  page_out(copy);
  return copy;
}

}  // namespace

void SpilledTensors::put(const std::string& name, int64_t index, const Tensor& tensor) {
  std::vector<Stored>& parts = values_[name];
  DETENT_CHECK(index == static_cast<int64_t>(parts.size()), "{}: part {} after {}", name, index,
               parts.size());
  const auto bytes = static_cast<int64_t>(tensor.byte_size());
  const bool fits = in_memory_ + bytes <= budget_;
  parts.push_back({fits ? tensor.clone() : on_disk(tensor, directory_), fits});
  (fits ? in_memory_ : spilled_) += bytes;
}

Tensor SpilledTensors::get(const std::string& name, int64_t index) const {
  return values_.at(name).at(static_cast<size_t>(index)).tensor;
}

void SpilledTensors::erase(const std::string& name) {
  for (const Stored& stored : values_.at(name)) {
    if (stored.is_in_memory) in_memory_ -= static_cast<int64_t>(stored.tensor.byte_size());
  }
  values_.erase(name);
}

std::vector<std::string> SpilledTensors::names() const {
  std::vector<std::string> names;
  for (const auto& [name, parts] : values_) names.push_back(name);
  return names;
}

}  // namespace detent
