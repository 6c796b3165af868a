#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "detent/files/file.h"

namespace detent {

/// The weights beside a model, in a file that is called after what it holds,
/// "<model's file>.<16 hexadecimal digits>.data": the weights of two models never have one name, so that what
/// a model names is what it was written with, whenever a process ends.
class OnnxWeightsFile {
 public:
  explicit OnnxWeightsFile(const std::filesystem::path& model);

  /// Chooses the name and returns where each begins: at a page, so that it can be mapped. Throws Error where
  /// a file of that name holds something else.
  std::vector<uint64_t> write(const std::vector<std::span<const std::byte>>& weights);
  const std::string& name() const { return name_; }

  /// Before the model takes its name. Does nothing where no weights were written.
  void commit();
  /// After that: removes the weights of the model that was there before, if they are called like this and
  /// nothing else in the folder names them.
  void remove_replaced() const;

 private:
  std::filesystem::path folder_;
  std::string model_;
  std::string name_;
  std::vector<std::string> replaced_;
  std::optional<AtomicFile> file_;
};

}  // namespace detent
