#include "detent/search/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/error_of_for_test.h"
#include "detent/files/toml.h"

namespace detent {
namespace {

using testing::HasSubstr;

constexpr const char* kMase = R"(
max_bits = 6
[search_space]
name = "graph/quantize/mixed_precision_ptq"
[search_space.setup]
by = "name"
[search_space.seed.default.config]
name = ["integer"]
data_in_width = [4, 8]
data_in_frac_width = ["NA"]
weight_width = [2, 4]
weight_frac_width = [1, 2]
bias_width = [8]
[search_space.seed.conv1.config]
name = ["integer"]
weight_width = [8]
[strategy]
name = "optuna"
eval_mode = true
[strategy.sw_runner.basic_evaluation]
num_samples = 512
[strategy.hw_runner.average_bitwidth]
compare_to = 32
[strategy.setup]
n_jobs = 1
n_trials = 20
timeout = 60
sampler = "TPE"
)";

TEST(MaseSections, BecomeFieldsOfTheSearch) {
  std::string warnings;
  const Table table = without_mase_sections(parse_toml(kMase, "x.toml"), "x.toml",
                                            [&](const std::string& text) { warnings += text + "\n"; });
  SearchOptions options;
  read_fields(options, table, "x.toml");
  options.check("x.toml");
  EXPECT_EQ(options.weights,
            (std::vector<std::string>{"integer:width=2,frac_width=1", "integer:width=2,frac_width=2",
                                      "integer:width=4,frac_width=1", "integer:width=4,frac_width=2"}));
  EXPECT_EQ(options.activations, (std::vector<std::string>{"integer:width=4", "integer:width=8"}));
  EXPECT_EQ(options.elementwise, options.activations);
  const FormatChoices choices{{{"conv1", "weight", {"integer:width=8"}}}};
  EXPECT_EQ(options.choices, choices);
  EXPECT_EQ(options.evaluations, 20);
  EXPECT_EQ(options.time, TimeSpan{60});
  EXPECT_EQ(options.strategy, "tpe");
  EXPECT_EQ(options.eval_samples, 512);
  EXPECT_EQ(options.cost, CostKind::kWeightBits);
  EXPECT_EQ(options.max_bits, 6);
  EXPECT_THAT(warnings, HasSubstr("formats of biases"));
  EXPECT_THAT(warnings, HasSubstr("n_jobs has no meaning"));
}

TEST(MaseSections, RefuseAnotherSearch) {
  const auto refused = [](const std::string& text) {
    return error_of([&] { without_mase_sections(parse_toml(text, "x"), "x", [](const std::string&) {}); });
  };
  EXPECT_THAT(refused("[strategy]\nname = \"rl\""), HasSubstr("expected \"optuna\""));
  EXPECT_THAT(refused("[strategy.setup]\nsampler = \"qmc\""), HasSubstr("expected tpe, random"));
  EXPECT_THAT(refused("[search_space]\nname = \"module/x\""),
              HasSubstr("graph/quantize/mixed_precision_ptq"));
  EXPECT_THAT(refused("[search_space.seed.default]\nx = 1"), HasSubstr("the table config is missing"));
}

}  // namespace
}  // namespace detent
