#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "detent/core/tensor.h"

namespace detent {

/// Values of many micro-batches, in memory up to a budget, else in temporary files.
class SpilledTensors {
 public:
  SpilledTensors(int64_t budget_bytes, std::filesystem::path directory)
      : budget_(budget_bytes), directory_(std::move(directory)) {}
  SpilledTensors(const SpilledTensors&) = delete;
  SpilledTensors& operator=(const SpilledTensors&) = delete;

  /// Copies `tensor`.
  void put(const std::string& name, int64_t index, const Tensor& tensor);
  Tensor get(const std::string& name, int64_t index) const;
  bool contains(const std::string& name) const { return values_.contains(name); }
  void erase(const std::string& name);
  std::vector<std::string> names() const;
  int64_t spilled_bytes() const { return spilled_; }

 private:
  struct Stored {
    Tensor tensor;
    bool is_in_memory;
  };

  int64_t budget_;
  int64_t in_memory_ = 0;
  int64_t spilled_ = 0;
  std::filesystem::path directory_;
  std::map<std::string, std::vector<Stored>, std::less<>> values_;
};

}  // namespace detent
