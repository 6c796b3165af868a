#include "detent/workers/worker_agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/error.h"
#include "detent/core/error_of_for_test.h"

namespace detent {
namespace {

using testing::HasSubstr;

/// Two workers one after the other in one thread: the first's words are kept for the second.
class Recorded final : public ProcessGroup {
 public:
  int rank() const override { return rank_; }
  int size() const override { return 2; }
  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> bytes) override {
    words_.emplace_back(bytes.begin(), bytes.end());
    if (rank_++ == 0) return {words_[0], words_[0]};
    return words_;
  }
  void all_reduce_sum(std::span<float>) override {}

 private:
  int rank_ = 0;
  std::vector<std::vector<std::byte>> words_;
};

std::string difference(const Table& first, const Table& second) {
  Recorded group;
  check_workers_agree(first, group);
  return detent::error_of([&] { check_workers_agree(second, group); });
}

TEST(WorkersAgree, OnEqualTables) {
  const Table settings = {{"seed", 1}, {"rate", 0.1}, {"passes", Table{{"quantize", Table{{"by", "type"}}}}}};
  EXPECT_EQ(difference(settings, settings), "");
  EXPECT_EQ(difference({}, {}), "");
  EXPECT_NO_THROW(check_workers_agree(settings, single_process()));
}

TEST(WorkersAgree, OrNameWhatDiffers) {
  EXPECT_THAT(difference({{"model", "toy"}, {"seed", 1}}, {{"model", "toy"}, {"seed", 2}}),
              HasSubstr("seed is 1 at worker 0, 2 at worker 1"));
  EXPECT_THAT(difference({{"seed", 1}}, {}), HasSubstr("seed is 1 at worker 0, nothing at worker 1"));
  EXPECT_THAT(difference({}, {{"load", "a.pt"}}),
              HasSubstr("load is nothing at worker 0, \"a.pt\" at worker 1"));
  EXPECT_THAT(difference({{"passes", Table{{"quantize", Table{{"by", "type"}}}}}},
                         {{"passes", Table{{"quantize", Table{{"by", "name"}}}}}}),
              HasSubstr("passes.quantize.by is \"type\" at worker 0, \"name\" at worker 1"));
}

}  // namespace
}  // namespace detent
