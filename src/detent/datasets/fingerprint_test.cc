#include "detent/datasets/dataset.h"

#include <gtest/gtest.h>

#include <set>

namespace detent {
namespace {

/// Sample i holds i in each value, but for one.
class Counting final : public Dataset {
 public:
  Counting(int64_t samples, Shape shape, int64_t label_of_last = 0, int64_t odd_sample = -1)
      : Dataset(std::move(shape), 2, labels(samples, label_of_last), "computed"), odd_sample_(odd_sample) {}

 private:
  static std::vector<int64_t> labels(int64_t samples, int64_t label_of_last) {
    std::vector<int64_t> result(static_cast<size_t>(samples));
    result.back() = label_of_last;
    return result;
  }
  void copy_sample(int64_t index, std::span<float> target) const override {
    std::ranges::fill(target, static_cast<float>(index));
    if (index == odd_sample_) target.back() += 0.5F;
  }

  int64_t odd_sample_;
};

TEST(DataFingerprint, DependsOnEverythingThatANetworkSees) {
  const std::set<uint64_t> fingerprints = {
      data_fingerprint(Counting(129, {2, 3})),        data_fingerprint(Counting(128, {2, 3})),
      data_fingerprint(Counting(129, {3, 2})),        data_fingerprint(Counting(129, {2, 3}, 1)),
      data_fingerprint(Counting(129, {2, 3}, 0, 0)),  data_fingerprint(Counting(129, {2, 3}, 0, 77)),
      data_fingerprint(Counting(129, {2, 3}, 0, 128))};
  EXPECT_EQ(fingerprints.size(), 7U);
  EXPECT_EQ(data_fingerprint(Counting(129, {2, 3})), data_fingerprint(Counting(129, {2, 3})));
}

TEST(DataFingerprint, OfLargeDataLooksAtTheFirstAndTheLastSample) {
  const auto fingerprint = [](int64_t odd_sample) {
    return data_fingerprint(Counting(10, {1 << 22}, 0, odd_sample));
  };
  EXPECT_EQ(fingerprint(-1), fingerprint(-1));
  EXPECT_NE(fingerprint(-1), fingerprint(0));
  EXPECT_NE(fingerprint(-1), fingerprint(9));
}

}  // namespace
}  // namespace detent
