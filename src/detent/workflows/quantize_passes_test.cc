#include "detent/workflows/quantize_passes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/error_of_for_test.h"

namespace detent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(QuantizePasses, ChangeTheFloatNetworkFirst) {
  QuantizeWish wish{.options = {{"weights", "mx_e2m1"}, {"activations", "nvfp4"}, {"num_samples", 64}},
                    .prepare = {"fold_constants"},
                    .improve = std::vector<std::string>{"gptq", "hadamard"}};
  Table passes = quantize_passes(wish);
  EXPECT_THAT(passes.keys(), ElementsAre("fold_constants", "hadamard", "static_quantize", "gptq"));
  EXPECT_EQ(*passes.table("hadamard").find("block_size")->get_if<int64_t>(), 16) << "that of the activations";
  EXPECT_EQ(*passes.table("gptq").find("num_samples")->get_if<int64_t>(), 64);

  wish.prepare = {"hadamard", "fold_constants"};
  EXPECT_THAT(quantize_passes(wish).keys(),
              ElementsAre("hadamard", "fold_constants", "static_quantize", "gptq"));
  wish.improve = {"hadamard", "hadamard"};
  EXPECT_EQ(quantize_passes(wish).keys().size(), 3U) << "has one already";
  wish.prepare = {};
  EXPECT_THAT(error_of([&] { quantize_passes(wish); }), HasSubstr("each once"));
}

TEST(QuantizePasses, RefuseToBoundSumsWithoutAccumulators) {
  for (const char* accumulator : {"", "none", "fp16", "fc=bf16"}) {
    QuantizeWish wish{.options = {{"accumulator", List{accumulator}}},
                      .improve = std::vector<std::string>{"axe"}};
    if (accumulator[0] == '\0') wish.options = {};
    EXPECT_THAT(error_of([&] { quantize_passes(wish); }), HasSubstr("--improve axe: it bounds sums"))
        << accumulator;
  }
  const QuantizeWish wish{.options = {{"accumulator", List{"fc=fp16", "conv.*=int14:wrap"}}},
                          .improve = std::vector<std::string>{"axe"}};
  EXPECT_THAT(quantize_passes(wish).keys(), testing::Contains("axe"));
}

}  // namespace
}  // namespace detent
