#include "detent/search/strategy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "detent/core/error_of_for_test.h"
#include "detent/files/file.h"
#include "detent/files/temporary_file_test.h"
#include "detent/graph/builder.h"
#include "detent/graph/random_parameters_for_test.h"
#include "detent/inference/integer_executor.h"
#include "detent/search/report.h"
#include "detent/search/search.h"

namespace detent {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

constexpr int64_t kInputs = 16;

class SearchSamples final : public CalibrationSet {
 public:
  SearchSamples() {
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    for (float& value : samples_.values<float>()) value = normal(random);
  }
  int64_t size() const override { return samples_.dim(0); }
  std::vector<Tensor> inputs(int64_t begin, int64_t end) const override {
    return {samples_.rows(begin, end).clone()};
  }
  uint64_t fingerprint() const override { return 1; }

 private:
  Tensor samples_{DType::kFloat32, {48, kInputs}};
};

/// Three layers of four widths each: 64 assignments.
Graph three_layers() {
  GraphBuilder b("three");
  NodeInput x = b.input("x", {kInputs});
  x = b.call("relu", {b.linear("first", x, kInputs, 24)});
  x = b.call("relu", {b.linear("second", x, 24, 16)});
  Graph graph = b.finish(b.linear("third", x, 16, 8));
  draw_parameters(graph);
  return graph;
}

class Strategies : public testing::TestWithParam<std::string> {
 protected:
  Strategies() {
    context_.where = "s";
    context_.open_calibration = [] { return std::make_unique<SearchSamples>(); };
    context_.executor = [this]() -> Executor& { return executor_; };
    context_.report = [](const std::string&) {};
    context_.warn = context_.report;
  }

  static SearchOptions options(const std::string& strategy, int64_t evaluations) {
    SearchOptions options;
    options.strategy = strategy;
    options.evaluations = evaluations;
    options.weights = {"int2", "int3", "int4", "int8"};
    options.weight_rule = WeightRule::kNearest;
    options.improve = "none";
    options.max_bits = 32;  // no bound, but a goal there must be
    options.points = 64;
    return options;
  }

  SearchReport search(const SearchOptions& options, uint64_t seed = 1, const std::string& folder = "",
                      bool resumes = false) {
    const std::string name = folder.empty() ? std::to_string(searches_++) : folder;
    std::filesystem::create_directories(folder_.get() / name);
    const SearchRequest request{.network = three_layers(),
                                .samples = {std::make_shared<SearchSamples>(), {}},
                                .options = options,
                                .seed = seed,
                                .folder = folder_.get() / name,
                                .resumes = resumes,
                                .latency = [](const Graph&) { return 1.0; }};
    return search_formats(request, context_);
  }

  std::filesystem::path folder() const { return folder_.get(); }

 private:
  TemporaryPath folder_{"strategies"};
  IntegerExecutor executor_;
  PassContext context_;
  int searches_ = 0;
};

/// Bytes and noise of each network of the front.
std::vector<std::pair<int64_t, double>> front_of(const SearchReport& report) {
  std::vector<std::pair<int64_t, double>> front;
  for (const SearchPoint& point : report.points)
    front.emplace_back(point.costs.bytes, point.quality.loss(QualityKind::kSqnr));
  return front;
}

const SearchPoint& best_of(const SearchReport& report) {
  return *std::ranges::find_if(report.points, [](const SearchPoint& point) { return point.is_best; });
}

TEST_P(Strategies, FindTheWholeFrontWhereTheyMayTryEverything) {
  const SearchReport everything = search(options("brute_force", 1000));
  const SearchReport found = search(options(GetParam(), 3000));
  EXPECT_GT(everything.points.size(), 8U);
  EXPECT_EQ(front_of(found), front_of(everything));
  EXPECT_EQ(best_of(found).costs.bytes, best_of(everything).costs.bytes);
}

TEST_P(Strategies, KeepToTheirEvaluationsAndSeed) {
  const SearchReport first = search(options(GetParam(), 12), 5);
  EXPECT_LE(first.evaluations, 12);
  EXPECT_GT(first.evaluations, 6);
  EXPECT_EQ(first.state, "evaluations are spent");
  EXPECT_EQ(report_value(search(options(GetParam(), 12), 5)), report_value(first));
  const std::vector<std::pair<int64_t, double>> front = front_of(first);
  for (size_t i = 1; i < front.size(); ++i) {
    EXPECT_GT(front[i].first, front[i - 1].first);
    EXPECT_LT(front[i].second, front[i - 1].second);
  }
}

TEST_P(Strategies, GoOnFromTheirJournalToTheSameResult) {
  const SearchReport whole = search(options(GetParam(), 20), 2, "whole");
  search(options(GetParam(), 8), 2, "parts");
  const std::string journal = read_file(folder() / "parts" / kSearchJournal);
  EXPECT_EQ(report_value(search(options(GetParam(), 20), 2, "parts", true)), report_value(whole));
  EXPECT_TRUE(read_file(folder() / "parts" / kSearchJournal).starts_with(journal))
      << "nothing is measured again";
}

TEST_P(Strategies, StayWithinBounds) {
  SearchOptions bounded = options(GetParam(), 200);
  bounded.max_bits.reset();
  bounded.min_sqnr = 20;
  const SearchReport quality = search(bounded);
  EXPECT_TRUE(quality.is_met);
  EXPECT_GE(best_of(quality).quality.sqnr_db(), 20);
  bounded.min_sqnr.reset();
  bounded.max_bits = 7;
  const SearchReport size = search(bounded);
  EXPECT_TRUE(size.is_met);
  EXPECT_LE(best_of(size).costs.weight_bits, 7);
}

INSTANTIATE_TEST_SUITE_P(All, Strategies, testing::Values("guided", "random", "tpe", "nsga2", "brute_force"),
                         [](const auto& instance) { return instance.param; });

TEST(Strategy, NamesThoseThatThereAre) {
  EXPECT_EQ(all_strategies().front().name, "guided");
  EXPECT_THAT(error_of([] { find_strategy("tpa", "x.toml"); }),
              AllOf(HasSubstr("x.toml"), HasSubstr("\"tpe\"")));
  EXPECT_EQ(error_of([] { check_size(find_strategy("guided", ""), 1e300); }), "");
  EXPECT_THAT(error_of([] { check_size(find_strategy("brute_force", ""), 1e12); }), HasSubstr("brute_force"));
}

TEST(RandomDraws, AreThoseOfTheSeed) {
  RandomDraws draws(7);
  RandomDraws same(7);
  std::vector<int> counts(5);
  for (int i = 0; i < 5000; ++i) {
    const int drawn = draws.below(5);
    EXPECT_EQ(same.below(5), drawn);
    ++counts[static_cast<size_t>(drawn)];
    const double share = draws.share();
    EXPECT_EQ(same.share(), share);
    EXPECT_TRUE(share >= 0 && share < 1);
  }
  EXPECT_THAT(counts, Each(AllOf(testing::Gt(850), testing::Lt(1150))));
}

}  // namespace
}  // namespace detent
