#include <algorithm>
#include <utility>

#include "detent/core/element_types.h"
#include "detent/core/error.h"
#include "detent/datasets/datasets.h"
#include "detent/datasets/sample_random.h"
#include "detent/datasets/whole_samples.h"

namespace detent {
namespace {

constexpr int64_t kRandomSamples = 32;

/// A sum of twelve uniform numbers, of variance 1/12 each: the same bits on every processor.
double nearly_normal(SampleRandom& random) {
  constexpr int kTerms = 12;
  double sum = -0.5 * kTerms;
  for (int i = 0; i < kTerms; ++i) sum += random.uniform();
  return sum;
}

/// [samples, ...] of whole inputs. Integers whose range is not known are 1.
Tensor random_input(const SampleInput& input, SampleRandom& random) {
  Shape shape = {kRandomSamples};
  shape.insert(shape.end(), input.usual.begin(), input.usual.end());
  Tensor tensor(input.dtype, std::move(shape));
  constexpr int64_t kMostBelow = int64_t{1} << 32;
  visit_numbers(input.dtype, [&]<class T>(T) {
    for (T& value : tensor.values<T>()) {
      if constexpr (std::is_same_v<T, bool>)
        value = random.below(2) == 1;
      else if constexpr (std::is_integral_v<T>)
        value = static_cast<T>(input.below > 0 ? random.below(std::min(input.below, kMostBelow - 1)) : 1);
      else
        value = static_cast<T>(nearly_normal(random));
    }
    return 0;
  });
  return tensor;
}

std::unique_ptr<Dataset> make_random(Split split, const DatasetOptions& options) {
  if (options.inputs.empty())
    fail(
        "random: expected a loaded network, whose inputs tell their shapes; a built-in model takes its data "
        "set's");
  SampleRandom random(static_cast<uint64_t>(options.seed), 0, static_cast<int64_t>(split));
  NamedTensors tensors;
  for (const SampleInput& input : options.inputs) {
    tensors.emplace_back(input.name, random_input(input, random));
    if (auto given = beside_tokens(input.name, tensors.back().second))
      tensors.back().second = std::move(*given);
  }
  constexpr const char* kSource = "random inputs";
  std::optional<Samples> samples = whole_samples(tensors, options.inputs, kSource);
  DETENT_CHECK(samples.has_value(), "inputs are whole");
  std::vector<Samples> files;
  files.push_back(std::move(*samples));
  return make_sample_dataset(std::move(files), kSource);
}

}  // namespace

DatasetInfo random_info() {
  DatasetInfo info;
  info.name = kRandomDataset;
  info.help =
      "32 inputs at random, as a loaded network takes them: normal numbers, tokens of its vocabulary. To try "
      "things "
      "out: they say little of ranges.";
  info.task = "classification";
  info.make = make_random;
  return info;
}

}  // namespace detent
