#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "detent/reconstruction/gram.h"
#include "detent/reconstruction/learned_rounding.h"
#include "detent/reconstruction/random_layer_for_test.h"

namespace detent {
namespace {

/// Common to methods that choose the value below or above.
struct UpOrDown {
  const char* name;
  void (*round)(const RandomLayer& layer, const ValueGrid& grid, Tensor& weight);
};

constexpr UpOrDown kMethods[] = {
    {"adaround", [](const RandomLayer& layer, const ValueGrid& grid,
                    Tensor& weight) { adaround(layer.gram, grid, {}, weight, 0, weight.dim(0)); }},
    {"signround", [](const RandomLayer& layer, const ValueGrid& grid, Tensor& weight) {
       signround(layer.gram, grid, {}, weight, 0, weight.dim(0));
     }}};

class EveryUpOrDown : public testing::TestWithParam<UpOrDown> {};

TEST_P(EveryUpOrDown, HalvesTheErrorOfNearestForEveryFormatAndIsNeverWorse) {
  for (const char* format : {"affine:width=3,symmetric=true,granularity=channel", "int3_g8", "affine:width=4",
                             "fixed:width=4,frac_width=1", "minifloat_ieee:width=5,exponent_width=2"}) {
    double nearest_total = 0;
    double learned_total = 0;
    for (uint32_t seed = 0; seed < 4; ++seed) {
      const RandomLayer layer = random_layer(5, 24, seed);
      const QuantSpec spec = parse_quant_spec_text(format);
      const ValueGrid grid(spec, layer.weight, "");
      Tensor learned = layer.weight.clone();
      GetParam().round(layer, grid, learned);
      EXPECT_TRUE(fake_quantize(grid.spec(), learned).equals(learned)) << format;
      const std::vector<double> nearest =
          output_errors(layer.gram, fake_quantize(spec, layer.weight), layer.weight, 0, 5);
      const std::vector<double> errors = output_errors(layer.gram, learned, layer.weight, 0, 5);
      for (size_t r = 0; r < 5; ++r) EXPECT_LE(errors[r], nearest[r] * (1 + 1e-9)) << format << " row " << r;
      nearest_total += std::accumulate(nearest.begin(), nearest.end(), 0.0);
      learned_total += std::accumulate(errors.begin(), errors.end(), 0.0);
    }
    EXPECT_LT(learned_total, 0.5 * nearest_total) << format;
  }
}

TEST_P(EveryUpOrDown, KeepsWhatIsOnTheGrid) {
  const RandomLayer layer = random_layer(4, 30, 9);
  const QuantSpec spec = parse_quant_spec_text("affine:width=4,symmetric=true,scale=0.2");
  Tensor once = fake_quantize(spec, layer.weight);
  const Tensor before = once.clone();
  GetParam().round(layer, ValueGrid(spec, once, ""), once);
  EXPECT_TRUE(std::ranges::equal(once.values<float>(), before.values<float>()));
}

INSTANTIATE_TEST_SUITE_P(UpOrDown, EveryUpOrDown, testing::ValuesIn(kMethods),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace detent
