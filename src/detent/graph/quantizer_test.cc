#include "detent/graph/quantizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "detent/core/error.h"
#include "detent/core/error_of_for_test.h"
#include "detent/formats/normal_tensor_for_test.h"
#include "detent/graph/builder.h"
#include "detent/graph/owned_parameters.h"

namespace detent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

Quantizer owning(const char* format, const Shape& shape, const std::vector<float>& scale) {
  Quantizer quantizer = parse_quant_spec_text(format);
  quantizer.parameters.emplace_back("scale", Parameter{Tensor::from<float>(shape, scale)});
  return quantizer;
}

std::string rounding_text(const Quantizer& quantizer) {
  return quant_spec_text(quantizer.effective_spec().value());
}

TEST(Quantizer, RoundsWithWhatIsGivenDerivedOrOwned) {
  for (const char* format : {"affine:scale=0.5,zero_point=3", "affine:granularity=channel", "ternary", "mx"})
    EXPECT_EQ(rounding_text(parse_quant_spec_text(format)), quant_spec_text(parse_quant_spec_text(format)));
  EXPECT_EQ(rounding_text(owning("affine:scale=0.5,zero_point=3,scale_rule=learned", {}, {0.25F})),
            "affine:scale=0.25x,zero_point=3x");
  EXPECT_EQ(rounding_text(owning("int4:granularity=channel,axis=1,scale_rule=learned", {2}, {0.25F, 0.5F})),
            "affine:width=4,symmetric=true,scale=0.25x0.5,granularity=channel,axis=1");
  EXPECT_EQ(rounding_text(owning("int4_g32:scale_rule=learned", {1}, {2})),
            "affine:width=4,symmetric=true,scale=2.0x");
  EXPECT_EQ(rounding_text(owning("fixed:width=6,signed=false,scale_rule=learned", {}, {0.75F})),
            "affine:width=6,signed=false,scale=0.75x");
}

/// Ends of the interval of codes.
std::pair<double, double> ends(const QuantSpec& spec) {
  const auto of = [](const auto& format) -> std::pair<double, double> {
    if constexpr (requires { format.low_code(); }) return {format.low_code(), format.high_code()};
    return {};
  };
  return std::visit(of, spec.format);
}

TEST(Quantizer, ValuesAreCodesTimesTheOwnedScaleWhateverTheFormat) {
  const Tensor input = normal_tensor({6, 8}, 1);
  for (const char* format :
       {"fixed:width=4,scale_rule=learned", "fixed:width=4,rounding=floor,scale_rule=learned",
        "fixed:width=1,scale_rule=learned", "fixed:width=32,scale_rule=learned",
        "fixed:width=3,rounding=floor,granularity=channel,axis=1,scale_rule=learned",
        "affine:width=4,scale_rule=learned", "uint4:granularity=channel,axis=1,scale_rule=learned"}) {
    SCOPED_TRACE(format);
    const bool per_channel = parse_quant_spec_text(format).granularity == Granularity::kChannel;
    std::vector<float> scales = {0.3F};
    if (per_channel) scales = {0.1F, 0.2F, 0.3F, 0.4F, 0.5F, 0.6F, 0.7F, 0.8F};
    const Quantizer quantizer = owning(format, per_channel ? Shape{8} : Shape{}, scales);
    const Tensor values = fake_quantize(quantizer, input);
    for (size_t i = 0; i < values.values<float>().size(); ++i) {
      const float scale = per_channel ? scales[i % 8] : scales[0];
      const float steps = input.values<float>()[i] / scale;
      const auto [low, high] = ends(quantizer.spec);
      const bool down = std::string_view(format).find("floor") != std::string_view::npos;
      const double code = std::clamp<double>(down ? std::floor(steps) : std::nearbyint(steps), low, high);
      EXPECT_EQ(values.values<float>()[i], static_cast<float>(code) * scale) << i;
    }
  }
}

TEST(Quantizer, WithoutAFormatForItsValuesIsNoSpec) {
  for (const char* format : {"fixed:width=4,rounding=floor,scale_rule=learned",
                             "fixed:width=1,scale_rule=learned", "fixed:width=25,scale_rule=learned"})
    EXPECT_FALSE(owning(format, {}, {0.5F}).effective_spec().has_value()) << format;
}

TEST(Quantizer, RefusesScalesThatAreNotAboveZero) {
  const float not_a_number = std::numeric_limits<float>::quiet_NaN();
  for (const float scale : {0.0F, -1.0F, not_a_number, std::numeric_limits<float>::infinity()}) {
    const char* fault =
        std::isnan(scale) ? "was never calibrated" : "expected above 0: try a smaller learning rate";
    for (const char* format : {"affine:scale_rule=learned", "fixed:width=1,scale_rule=learned"}) {
      EXPECT_THAT([&] { fake_quantize(owning(format, {}, {scale}), normal_tensor({4}, 1)); },
                  ThrowsMessage<Error>(HasSubstr(fault)))
          << format << " " << scale;
    }
  }
  EXPECT_THAT(
      [] {
        fake_quantize(owning("fixed:width=1,scale_rule=learned", {2}, {1, 2}), normal_tensor({4}, 1));
      },
      ThrowsMessage<Error>(HasSubstr("has shape [2], expected []")));
}

TEST(Quantizer, IsEqualWhereItsValuesAre) {
  const Quantizer a = owning("affine:scale_rule=learned", {}, {0.5F});
  EXPECT_EQ(a, owning("affine:scale_rule=learned", {}, {0.5F}));
  EXPECT_FALSE(a == owning("affine:scale_rule=learned", {}, {0.25F}));
  EXPECT_FALSE(a == owning("affine:width=4,scale_rule=learned", {}, {0.5F}));
  EXPECT_FALSE(a == Quantizer(parse_quant_spec_text("affine:scale_rule=learned")));
  Quantizer fixed = owning("affine:scale_rule=learned", {}, {0.5F});
  fixed.find_parameter("scale")->trainable = false;
  EXPECT_FALSE(a == fixed);
}

/// x -> relu -> relu; the edge between them, and x, have a quantizer each.
Graph shared_edge() {
  GraphBuilder builder("edge");
  NodeInput x = builder.call("relu", {builder.input("x", {4})});
  Graph graph = builder.finish(builder.call("relu", {x}));
  const QuantizerRef edge(owning("affine:scale_rule=learned", {}, {0.5F}));
  graph.node("relu").quantization["data_out_0"] = edge;
  graph.node("relu_1").quantization["data_in_0"] = edge;
  graph.node("relu").quantization["data_in_0"] = owning("affine:scale_rule=learned", {}, {0.25F});
  return graph;
}

TEST(Quantizer, OfAGraphOwnsItsParametersOnce) {
  Graph graph = shared_edge();
  verify(graph);
  EXPECT_EQ(graph.parameter_count(), 2);
  const Graph copy = graph;
  const QuantizerRef& given = copy.node("relu").quantization.at("data_out_0");
  EXPECT_TRUE(given.is(copy.node("relu_1").quantization.at("data_in_0")));
  EXPECT_EQ(copy.parameter_count(), 2);
  graph.node("relu").quantization.at("data_out_0")->find_parameter("scale")->tensor =
      Tensor::from<float>({}, std::vector<float>{8});
  EXPECT_EQ(given->find_parameter("scale")->tensor.values<float>()[0], 0.5F) << "a copy has its own";
  const Graph deep = copy.deep_copy();
  EXPECT_NE(deep.node("relu").find_quantizer("data_in_0")->find_parameter("scale")->tensor.bytes().data(),
            copy.node("relu").find_quantizer("data_in_0")->find_parameter("scale")->tensor.bytes().data());
  std::vector<std::string> names;
  for (const auto& [name, parameter] : graph.node("relu").all_parameters()) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("data_in_0_scale", "data_out_0_scale"));
  EXPECT_THAT(graph.node("output").all_parameters(), IsEmpty());
}

/// Numbers beyond an int are beyond the widths too.
TEST(Quantizer, HoldsWhatTrainingMovesToWhatThereIs) {
  EXPECT_EQ(rounded_width(4.4F), 4);
  EXPECT_EQ(rounded_width(1e20F), kMostWidth);
  EXPECT_EQ(rounded_width(-1e20F), kLeastWidth);
  EXPECT_THAT(detent::error_of([] { rounded_width(NAN); }),
              HasSubstr("the width is nan: try a smaller learning rate"));
}

TEST(Quantizer, IsVerified) {
  const auto error_of = [](const auto& break_it) -> std::string {
    Graph graph = shared_edge();
    break_it(*graph.node("relu_1").quantization.at("data_in_0"));
    return detent::error_of([&] { verify(graph); });
  };
  EXPECT_THAT(
      error_of([](Quantizer& q) { q.parameters.clear(); }),
      HasSubstr(
          "node \"relu\" (relu): parameter \"data_out_0_scale\": got nothing, expected the learned scale"));
  EXPECT_THAT(error_of([](Quantizer& q) {
                q.find_parameter("scale")->tensor = Tensor(DType::kFloat32, {2, 2});
              }),
              HasSubstr("got [2, 2], expected the learned scale of shape"));
  EXPECT_THAT(error_of([](Quantizer& q) { q.find_parameter("scale")->tensor = Tensor(DType::kInt32, {}); }),
              HasSubstr("parameter \"data_out_0_scale\": got int32, expected float32"));
  EXPECT_THAT(
      error_of([](Quantizer& q) { q.parameters.emplace_back("threshold", Parameter{}); }),
      HasSubstr(
          "its quantizer has a parameter \"threshold\", which affine:scale_rule=learned does not read"));
  EXPECT_THAT(error_of([](Quantizer& q) { q.parameters.push_back(q.parameters.front()); }),
              HasSubstr("a parameter of its quantizer occurs twice"));
  const auto holding = [](const char* name, float value) {
    return [=](Quantizer& q) {
      q.parameters.front().first = "range";
      q.parameters.emplace_back(name, Parameter{Tensor::from<float>({}, std::vector<float>{value}), true});
    };
  };
  EXPECT_EQ(error_of(holding("width", 4.2F)), "");
  EXPECT_THAT(error_of(holding("width", NAN)),
              HasSubstr("parameter \"data_out_0_width\": got nan, expected finite numbers"));
  EXPECT_THAT(error_of([](Quantizer& q) { q.rounding = Rounding::kLearned; }),
              HasSubstr("got rounding \"learned\" without a parameter \"round_up\""));
  EXPECT_THAT(error_of([](Quantizer& q) {
                q.spec = parse_quant_spec_text("ternary:scale_rule=learned");
                q.rounding = Rounding::kFloor;
              }),
              HasSubstr("got rounding \"floor\" of ternary:scale_rule=learned, expected integers"));
  EXPECT_THAT(error_of([](Quantizer& q) { q.norm_folding = NormFolding::kBatch; }),
              HasSubstr("got a folded batch norm, expected that of weights alone"));
  EXPECT_THAT(error_of([](Quantizer& q) { q.observer = ScaleObserver{.steps = -1}; }),
              HasSubstr("0 of -1 steps"));
  EXPECT_THAT(
      error_of([](Quantizer& q) { q.find_parameter("scale")->tensor.values<float>()[0] = HUGE_VALF; }),
      HasSubstr("parameter \"data_out_0_scale\": got inf, expected finite numbers"));
  EXPECT_THAT(error_of([](Quantizer& q) { q.spec.scale_rule = ScaleRule::kGiven; }),
              HasSubstr("its quantizer has a parameter \"scale\", which affine does not read"));
}

}  // namespace
}  // namespace detent
