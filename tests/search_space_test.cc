#include "detent/search/space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

#include "detent/core/error_of_for_test.h"
#include "detent/graph/builder.h"
#include "detent/models/models.h"
#include "detent/passes/analysis/network_cost.h"
#include "detent/search/costs.h"
#include "detent/search/sensitivities.h"
#include "detent/search/shared_runs.h"
#include "detent/search/strategy.h"
#include "detent/search/surrogate.h"

namespace detent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Space : public testing::Test {
 protected:
  SearchSpace make(const SearchOptions& options) const {
    return make_search_space(graph_, plan_, options, "s");
  }
  std::string refused(const SearchOptions& options) const {
    return error_of([&] { make(options); });
  }
  static SearchOptions with_choices(const std::string& text) {
    SearchOptions options;
    options.choices = FormatChoices::from_value(text, "choices");
    return options;
  }
  static std::vector<std::string> formats(const SearchSpace& space, const std::string& node,
                                          const std::string& operand) {
    std::vector<std::string> texts;
    for (const Choice& choice : space.choices) {
      if (choice.name != node || choice.operand != operand) continue;
      for (const ChoiceFormat& format : choice.formats) texts.push_back(format.text);
    }
    return texts;
  }

  Graph graph_ = build_cifar_resnet(20, {3, 32, 32}, 10);
  CodePlan plan_ = plan_codes(graph_, {});
};

TEST_F(Space, HasFormatsBySizeForEachOperand) {
  SearchOptions options = with_choices("layer1_0.*:weight=float|int8|int2,linear:data_in=uint8|uint4");
  options.weights = {"int8", "int3", "fixed:width=5,frac_width=4"};
  const SearchSpace space = make(options);
  EXPECT_THAT(formats(space, "layer1_0_conv1", "weight"), ElementsAre("int2", "int8", "float"));
  EXPECT_THAT(formats(space, "layer2_0_conv1", "weight"),
              ElementsAre("int3", "fixed:width=5,frac_width=4", "int8"));
  EXPECT_THAT(formats(space, "linear", "data_in"), ElementsAre("uint4", "uint8"));
  EXPECT_THAT(formats(space, "layer2_0_conv1", "data_in"), ElementsAre("uint8"));
  EXPECT_EQ(space.size(), 2.0 * std::pow(3.0, 20));
}

/// The weights of a recurrent layer are constants: each has formats, which patterns for the layer give.
TEST_F(Space, HasFormatsOfRecurrentWeights) {
  GraphBuilder builder("recurrent");
  const NodeInput x = builder.input("x", {7, 6});
  const NodeInput weights = builder.parameter("input_weights", {2, 24, 6});
  const NodeInput states = builder.parameter("state_weights", {2, 24, 8});
  graph_ = builder.finish(builder.call("gru", {x, weights, states},
                                       {{"hidden_size", 8},
                                        {"direction", "bidirectional"},
                                        {"activations", "sigmoid tanh sigmoid tanh"},
                                        {"batch_first", true}}));
  plan_ = plan_codes(graph_, {});
  SearchOptions options = with_choices("gru:weight=float|int8|int4");
  const SearchSpace space = make(options);
  EXPECT_THAT(formats(space, "input_weights", "weight"), ElementsAre("int4", "int8", "float"));
  EXPECT_THAT(formats(space, "state_weights", "weight"), ElementsAre("int4", "int8", "float"));
  EXPECT_EQ(space.choices[0].formats[1].spec->axis, 1);
  const CostModel costs(graph_, space);
  constexpr int64_t kBytes = 2 * 24 * (6 + 8) / 2 + 24 * 2 * 4;  // two codes a byte, a scale a row
  EXPECT_EQ(costs.costs(space.smallest()).bytes, kBytes);
}

/// The first operand of 2 * x is a number, which has no shape among the values.
TEST_F(Space, CountsInputsAfterNumbers) {
  GraphBuilder builder("scaled");
  const NodeInput hidden = builder.linear("hidden", builder.input("x", {6}), 6, 4);
  const NodeInput scaled = builder.call("mul", {NodeInput::of_constant(2.0), hidden});
  graph_ = builder.finish(builder.linear("last", scaled, 4, 3));
  plan_ = plan_codes(graph_, {});
  const SearchSpace space = make({});
  EXPECT_THAT(formats(space, "mul", "data_in"), ElementsAre("uint8"));
  constexpr int64_t kWeights = (6 * 4 + 4 * 3) / 4;                // two bits each
  constexpr int64_t kScalesAndBiases = (4 + 3) * 4 + (4 + 3) * 4;  // float32
  EXPECT_EQ(CostModel(graph_, space).costs(space.smallest()).bytes, kWeights + kScalesAndBiases);
}

TEST_F(Space, SaysWhatIsWrong) {
  EXPECT_THAT(refused(with_choices("layr1.*:weight=int4|int8")), HasSubstr("matches no node: did you mean"));
  EXPECT_THAT(refused(with_choices("relu.*:weight=int4|int8")),
              HasSubstr("nodes without a choice of weight"));
  EXPECT_THAT(refused(with_choices("linear:weight=uint4|int8")), HasSubstr("int4 is meant for them"));
  EXPECT_THAT(refused(with_choices("linear:weight=int99")),
              HasSubstr("weight of \"linear\": format \"int99\""));
  EXPECT_THAT(refused(with_choices("linear:data_in=int4_g32|uint8")), HasSubstr("share one scale"));
  SearchOptions options;
  options.weights = {"int4"};
  EXPECT_THAT(refused(options), HasSubstr("nothing is to be chosen: every operand has a single format"));
  options.weights = {"int4", "int4"};
  EXPECT_THAT(refused(options), HasSubstr("it is given twice"));
}

TEST_F(Space, MayBeTooLargeForAStrategy) {
  const auto check = [](const char* strategy) { check_size(find_strategy(strategy, "s"), 2e6); };
  EXPECT_THAT(error_of([&] { check("brute_force"); }),
              HasSubstr("brute_force: there are 2e+06 assignments, expected at most 1000000"));
  EXPECT_EQ(error_of([&] { check("random"); }), "");
}

TEST_F(Space, UniformTakesTheNearestFormatWhereThereIsNone) {
  SearchOptions options = with_choices("conv1:weight=int8,linear:weight=int2|int6");
  options.weights = {"int2", "int4", "int8"};
  const SearchSpace space = make(options);
  const ChoiceFormat* four = nullptr;
  for (const Choice& choice : space.choices) {
    if (choice.name == "layer1_0_conv1" && choice.operand == kWeightOperand) four = &choice.formats[1];
  }
  const Assignment uniform = space.uniform(kWeightOperand, *four);
  for (size_t c = 0; c < uniform.size(); ++c) {
    const Choice& choice = space.choices[c];
    if (choice.operand != kWeightOperand) continue;
    const std::string& format = choice.formats[static_cast<size_t>(uniform[c])].text;
    EXPECT_EQ(format, choice.name == "conv1" ? "int8" : choice.name == "linear" ? "int6" : "int4");
  }
}

TEST_F(Space, CostsAreThoseOfTheNetwork) {
  SearchOptions options;
  options.weights = {"int3", "int8", "float"};
  options.activations = {"uint4", "uint8"};
  const SearchSpace space = make(options);
  const CostModel model(graph_, space);
  for (const Assignment& assignment : {space.smallest(), space.largest()}) {
    Graph graph = graph_;
    for (size_t c = 0; c < assignment.size(); ++c) {
      const Choice& choice = space.choices[c];
      const ChoiceFormat& format = choice.formats[static_cast<size_t>(assignment[c])];
      if (choice.operand == kWeightOperand && format.spec)
        graph.nodes()[choice.node].quantization["weight"] = *format.spec;
    }
    const StorageBits stored = storage_bits(graph);
    EXPECT_EQ(model.costs(assignment).bytes, stored.weight_bytes());
    EXPECT_DOUBLE_EQ(model.costs(assignment).weight_bits, stored.average_weight_bits());
  }
  EXPECT_DOUBLE_EQ(model.costs(space.largest()).mac_bits,
                   8.0 / 4 * 32 / 3 * model.costs(space.smallest()).mac_bits);
}

TEST_F(Space, ChainsFollowResiduals) {
  const SearchSpace space = make({});
  const auto chains = residual_chains(graph_, space);
  ASSERT_EQ(chains.size(), 1U);  // shortcuts are slices and zeros, so that one stream goes through
  std::vector<std::string> names;
  for (const size_t c : chains[0]) names.push_back(space.choices[c].name);
  EXPECT_THAT(names, ElementsAre("conv1", "layer1_0_conv2", "layer1_1_conv2", "layer1_2_conv2",
                                 "layer2_0_conv2", "layer2_1_conv2", "layer2_2_conv2", "layer3_0_conv2",
                                 "layer3_1_conv2", "layer3_2_conv2"));
}

TEST_F(Space, FamiliesRunWhatNetworksHaveInCommonOnce) {
  SearchOptions options;
  options.activations = {"uint4", "uint8"};
  const SearchSpace space = make(options);
  const SharedRuns shared(graph_, plan_, space);
  RandomDraws draws(7);
  std::set<Assignment> distinct;
  while (distinct.size() < 40) {
    // Few formats of the first layers, so that many begin alike.
    Assignment drawn = space.smallest();
    const auto changes = static_cast<size_t>(draws.below(5));
    for (size_t i = 0; i < changes; ++i) {
      const auto c = static_cast<size_t>(draws.below(drawn.size()));
      drawn[c] = draws.below(space.choices[c].formats.size());
    }
    distinct.insert(drawn);
  }
  const std::vector<Assignment> assignments(distinct.begin(), distinct.end());
  for (const size_t most : {size_t{5}, size_t{100}}) {
    std::vector<int> times(assignments.size());
    double runs = 0;
    const std::vector<RunFamily> families = shared.families(assignments, most);
    for (const RunFamily& family : families) {
      EXPECT_LE(family.size(), most);
      EXPECT_EQ(family.front().parent, std::nullopt);
      for (const SharedRun& run : family) {
        ++times[run.assignment];
        if (!run.parent) {
          runs += 1;
          continue;
        }
        EXPECT_LT(family[*run.parent].first, run.first);
        const Assignment& mine = assignments[run.assignment];
        const Assignment& other = assignments[family[*run.parent].assignment];
        runs += shared.share_after(other, mine);
        for (size_t c = 0; c < mine.size(); ++c) {
          EXPECT_TRUE(space.choices[c].node >= run.first || mine[c] == other[c]) << space.choices[c].name;
        }
      }
    }
    EXPECT_THAT(times, testing::Each(1));
    EXPECT_NEAR(shared.runs(families), runs, 1e-9);
    EXPECT_LT(runs, most == 100 ? 30 : 36) << "of 40";
  }
}

TEST_F(Space, WhatDiffersInTheLastLayerCostsItsProducts) {
  const SearchSpace space = make({});
  const SharedRuns shared(graph_, plan_, space);
  Assignment last = space.largest();
  for (size_t c = 0; c < last.size(); ++c) {
    if (space.choices[c].name == "linear" && space.choices[c].operand == "weight") last[c] = 0;
  }
  const double both = shared.runs(shared.families({space.largest(), last}, 8));
  EXPECT_GT(both, 1);
  EXPECT_LT(both, 1.001) << "640 products of 40 millions";
  EXPECT_NEAR(shared.runs(shared.families({space.largest(), space.smallest()}, 8)), 2, 0.001);
}

TEST_F(Space, TheSurrogateLearnsFromWhatIsNear) {
  const SearchSpace space = make({});
  Sensitivities sensitivities;
  for (const Choice& choice : space.choices) sensitivities.losses.emplace_back(choice.formats.size(), 0.01);
  Surrogate surrogate(space, sensitivities);
  const Assignment centre = space.uniform("weight", space.choices[0].formats[3]);
  Assignment near = centre;
  near[0] += 1;
  const double prior = surrogate.predict(centre);
  EXPECT_NEAR(prior, std::log(0.01 * static_cast<double>(space.choices.size())), 1e-12);
  surrogate.see(centre, 2 * std::exp(prior));
  EXPECT_GT(surrogate.predict(near), prior + 0.3);
  EXPECT_LT(surrogate.predict(near), surrogate.predict(centre));
  EXPECT_NEAR(surrogate.predict(space.smallest()), prior, 0.01) << "nothing was seen there";
  const double missed = surrogate.deviation();
  for (int i = 0; i < 50; ++i) {
    near[static_cast<size_t>(i) % near.size()] = 0;
    surrogate.see(near, std::exp(surrogate.predict(near)));
  }
  EXPECT_LT(surrogate.deviation(), missed) << "predictions that come true";
}

TEST_F(Space, PartsAreFittedToMeasuredNetworks) {
  SearchOptions options;
  options.weights = {"int2", "int4", "int8"};
  const SearchSpace space = make(options);
  std::mt19937 generator(3);
  // Sensitivities that are wrong by up to a factor of 2, as those of few samples are.
  std::uniform_real_distribution<double> factor(0.5, 2);
  Sensitivities sensitivities;
  std::vector<std::vector<double>> truth;
  for (const Choice& choice : space.choices) {
    std::vector<double>& losses = truth.emplace_back();
    std::vector<double>& measured = sensitivities.losses.emplace_back();
    for (size_t f = 0; f < choice.formats.size(); ++f) {
      losses.push_back(0.01 * std::pow(0.1, static_cast<double>(f)));
      measured.push_back(losses.back() * factor(generator));
    }
  }
  RandomDraws draws(1);
  const auto random_network = [&] {
    Assignment assignment;
    for (const Choice& choice : space.choices)
      assignment.push_back(static_cast<int>(draws.below(choice.formats.size())));
    return assignment;
  };
  const auto distortion = [&](const Assignment& assignment) {
    double sum = 0;
    for (size_t c = 0; c < assignment.size(); ++c) sum += truth[c][static_cast<size_t>(assignment[c])];
    return sum;
  };
  FittedParts parts(space, sensitivities);
  const auto largest_miss = [&] {
    double largest = 0;
    for (int i = 0; i < 50; ++i) {
      const Assignment assignment = random_network();
      largest = std::max(largest, std::fabs(std::log(parts.sum(assignment) / distortion(assignment))));
    }
    return largest;
  };
  const double before = largest_miss();
  std::vector<std::pair<Assignment, double>> measured;
  for (int i = 0; i < 150; ++i) {
    const Assignment assignment = random_network();
    measured.emplace_back(assignment, distortion(assignment));
  }
  parts.fit(measured);
  EXPECT_GT(before, 0.2);
  EXPECT_LT(largest_miss(), 0.1 * before);
}

}  // namespace
}  // namespace detent
