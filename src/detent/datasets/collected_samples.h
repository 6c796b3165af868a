#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/datasets/dataset.h"
#include "detent/files/scratch.h"

namespace detent {

/// Takes samples that come one batch after the other, from whatever makes them, and gives a data set of them:
/// the same one however they were cut into batches. The first 8 MiB stay in memory; what comes then lies in
/// nameless files of a folder, so that memory does not grow with the number of samples.
class CollectedSamples {
 public:
  /// As many as there are samples, or else all of the inputs are one sample: points and functions.
  static constexpr int64_t kOwnRows = -2;

  /// `inputs`: what a network takes, shapes apart. `source` is what messages call the samples. `rows`, where
  /// not every input begins with the batch: first sizes of inputs, 0 of a number without dimensions, -1 where
  /// open, kOwnRows where the model calls it something else than the batch.
  CollectedSamples(std::vector<SampleInput> inputs, std::filesystem::path folder, std::string source,
                   std::vector<int64_t> rows = {});

  /// A tensor per input, batch first, and a label per sample, or none. With `rows` the inputs of one sample,
  /// or of several one after the other, of which a single number is the same for all. Throws Error on other
  /// dtypes, on inputs with different numbers of samples, on float32 NaN, on negative labels, and where only
  /// some samples have labels.
  void add(std::span<const Tensor> batch, std::span<const int64_t> labels = {});

  int64_t size() const { return static_cast<int64_t>(places_.size()); }

  /// All of them, with labels in [0, class_count). Throws Error where there are none, and on larger labels.
  std::unique_ptr<Dataset> finish(int64_t class_count);

 private:
  struct Size {
    std::vector<Shape> shapes;
    std::vector<int64_t> rows;  // of one sample; 0: a number without dimensions
    bool operator==(const Size&) const = default;
  };
  struct Place {
    size_t size;   // of sizes_
    size_t block;  // holds the sample's inputs one after another
    int64_t offset;
  };
  class Samples;

  /// Reserves this many bytes.
  std::span<std::byte> room(size_t bytes, Place& place);
  /// How many samples the tensors are.
  int64_t count_of(std::span<const Tensor> batch) const;
  size_t size_of(std::span<const Tensor> batch, int64_t count);
  void check(std::span<const Tensor> batch) const;
  void check_labels(std::span<const int64_t> labels, int64_t count) const;
  std::string where(size_t input) const;

  std::vector<SampleInput> inputs_;
  std::vector<int64_t> rows_;  // 1 of each where the batch comes first
  Scratch scratch_;
  std::string source_;
  std::vector<Size> sizes_;
  std::vector<Place> places_;
  std::vector<int64_t> labels_;
  std::vector<Tensor> blocks_;  // bytes
  int64_t used_ = 0;            // in the last block
};

}  // namespace detent
