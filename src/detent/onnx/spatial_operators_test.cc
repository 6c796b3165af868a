#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/error_of_for_test.h"
#include "detent/inference/integer_executor.h"
#include "detent/onnx/import_onnx.h"

#include "detent/onnx/model_for_test.h"
#include "detent/onnx/results_for_test.h"

// Operators that read images at places that are computed, transforms, and what is written out as arithmetic;
// expected are the numbers that ONNX Runtime 1.32 gives.

namespace detent {
namespace {

using testing::HasSubstr;

using Floats = std::vector<float>;
using Ints = std::vector<int64_t>;

/// A model of one node.
class WrittenOut : public testing::Test {
 protected:
  void input(const std::string& name, const Tensor& tensor) {
    const auto type = tensor.dtype() == DType::kInt64 ? kOnnxInt64 : onnx::TensorProto::FLOAT;
    model.input(name, {tensor.shape().begin(), tensor.shape().end()}, type);
    inputs.push_back(tensor);
  }
  void constant(const std::string& name, const Shape& shape, int seed) {
    const Tensor tensor = varied_numbers(shape, seed);
    const auto values = tensor.values<float>();
    model.constant(name, {shape.begin(), shape.end()}, Floats(values.begin(), values.end()));
  }
  void node(const std::string& op, const std::vector<std::string>& names,
            const std::vector<OnnxAttribute>& attributes = {}, const std::string& domain = "") {
    model.output("y");
    model.node(op, names, {"y"}, attributes).set_domain(domain);
  }
  Tensor run() const {
    const Graph graph = import_onnx(model.write(), {.shapes = {}, .frees_batch = false});
    return IntegerExecutor().compile(graph)->run(inputs).at(0);
  }
  std::string error() const {
    return error_of([&] { import_onnx(model.write()); });
  }

  OnnxModelForTest model{20};
  std::vector<Tensor> inputs;
};

class GridSample : public WrittenOut {
 protected:
  void expect(const std::vector<OnnxAttribute>& attributes, const std::vector<double>& expected) {
    input("x", varied_numbers({1, 2, 3, 4}, 1));
    Tensor grid = varied_numbers({1, 2, 3, 2}, 7);
    for (float& value : grid.values<float>()) value *= 1.25F;
    input("grid", grid);
    node("GridSample", {"x", "grid"}, attributes);
    const Tensor y = run();
    EXPECT_EQ(y.shape(), (Shape{1, 2, 2, 3}));
    expect_near(y, expected);
  }
};

TEST_F(GridSample, IsLinearBetweenPixelsAndZeros) {
  expect({{"mode", "linear"}}, {-0.23601696, 0.061950505, -0.1116613, 0.44518775, -0.043453049, 0.31838328,
                                0.63076651, 0.4534978, 0.27502635, -0.044884607, -0.035969291, 0.43983865});
}

TEST_F(GridSample, IsCubicAmongReflections) {
  expect({{"mode", "cubic"}, {"padding_mode", "reflection"}},
         {-0.21623403, 0.040218383, -0.45535162, 0.57105368, -0.30258963, 0.44019702, 0.6754235, 1.189236,
          1.194681, -0.059248026, -0.046016105, 0.55204815});
}

TEST_F(GridSample, IsCubicBeyondTheBorder) {
  expect({{"mode", "cubic"}, {"padding_mode", "border"}},
         {-0.21623403, 0.12035464, -0.36925191, 0.57105368, -0.19264895, 0.44019702, 0.6754235, 1.069252,
          0.98936522, -0.059248026, -0.13788728, 0.55204815});
}

TEST_F(GridSample, TakesTheNearestPixelWithinTheBorder) {
  expect({{"mode", "nearest"}, {"padding_mode", "border"}, {"align_corners", 1}},
         {0.62336504, 0.24495244, -0.33155555, 0.97434926, -0.16368252, 0.62336504, 0.57155561, 0.99314284,
          0.81663489, -0.51746035, -0.13549209, 0.57155561});
}

TEST_F(GridSample, RefusesOtherModes) {
  input("x", varied_numbers({1, 2, 3, 4}, 1));
  input("grid", varied_numbers({1, 2, 3, 2}, 7));
  node("GridSample", {"x", "grid"}, {{"mode", "quintic"}});
  EXPECT_THAT(error(), HasSubstr("mode is \"quintic\", expected linear, nearest or cubic"));
}

TEST_F(WrittenOut, FourierTransformsGoBack) {
  input("x", varied_numbers({1, 5, 2}, 1));
  model.constant<int64_t>("n", {}, {6});
  model.constant<int64_t>("axis", {}, {1});
  node("DFT", {"x", "n", "axis"}, {{"inverse", 1}});
  expect_near(run(), {-0.11777768, 0.43417996, -0.20354776, -0.40224633, 0.16165593, 0.075753987, -0.17466664,
                      0.20239155, 0.032439388, 0.04206612, -0.16883324, -0.10719283});
}

TEST_F(WrittenOut, FourierTransformsOfCutSignalsHaveOneSide) {
  input("x", varied_numbers({1, 5, 1}, 1));
  model.constant<int64_t>("n", {}, {4});
  model.constant<int64_t>("axis", {}, {1});
  node("DFT", {"x", "n", "axis"}, {{"onesided", 1}});
  expect_near(run(), {-0.84215868, 0, -0.018031808, -0.40863499, -1.0046985, 7.104842e-09});
}

TEST_F(WrittenOut, FourierTransformsAreBounded) {
  input("x", varied_numbers({1, 1 << 12, 1}, 1));
  node("DFT", {"x"});
  EXPECT_THAT(error(), HasSubstr("a transform of 4096 to 4096 numbers, which is not supported"));
}

class ShortFourierTransforms : public WrittenOut, public testing::WithParamInterface<Shape> {};

TEST_P(ShortFourierTransforms, AreOfFrames) {
  input("x", varied_numbers({1, 6, 1}, 1).reshaped(GetParam()));
  model.constant<int64_t>("step", {}, {2});
  constant("window", {4}, 2);
  node("STFT", {"x", "step", "window"});
  const Tensor y = run();
  EXPECT_EQ(y.shape(), (Shape{1, 2, 3, 2}));
  expect_near(y, {0.021843158, 0, 0.29237816, 0.33495408, 0.078425102, -2.4732754e-09, -0.7572403, 0,
                  0.29526299, -1.0340973, 0.82549798, -6.9183685e-08});
}

INSTANTIATE_TEST_SUITE_P(Signals, ShortFourierTransforms, testing::Values(Shape{1, 6, 1}, Shape{1, 6}));

TEST_F(WrittenOut, MelWeightsAreTriangles) {
  for (const auto& [name, number] : {std::pair("bands", 3), std::pair("length", 16), std::pair("rate", 8192)})
    model.constant<int64_t>(name, {}, {number});
  model.constant<float>("low", {}, {0});
  model.constant<float>("high", {}, {4096});
  node("MelWeightMatrix", {"bands", "length", "rate", "low", "high"});
  expect_near(run(), {1, 0, 0, 0, 1, 0, 0, 0.5, 0.5, 0, 0, 1, 0, 0, 0.5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
}

TEST_F(WrittenOut, CumulativeProductsGoBothWays) {
  input("x", varied_numbers({2, 5}, 1));
  model.constant<int64_t>("axis", {}, {1});
  node("CumProd", {"x", "axis"}, {{"exclusive", 1}, {"reverse", 1}});
  const std::vector<double> expected = {-0.0088575343, -0.036160219, 0.079877064, -0.48799998, 1,
                                        0.03009372,    0.048276238,  0.056197394, 0.69041264,  1};
  expect_near(run(), expected);
  model.graph().mutable_initializer()->Clear();
  input("axis", Tensor::from({}, Ints{-1}));
  expect_near(run(), expected);
}

TEST_F(WrittenOut, GlobalLpPoolIsTheNormOfAChannel) {
  input("x", varied_numbers({1, 2, 2, 3}, 1));
  node("GlobalLpPool", {"x"}, {{"p", 3}});
  expect_near(run(), {1.0793343, 1.2610904});
}

TEST_F(WrittenOut, DeformableConvolutionsReadBetweenPixels) {
  input("x", varied_numbers({1, 2, 3, 3}, 1));
  constant("w", {1, 2, 2, 2}, 2);
  constant("offsets", {1, 8, 2, 2}, 3);
  constant("b", {1}, 4);
  constant("mask", {1, 4, 2, 2}, 5);
  node("DeformConv", {"x", "w", "offsets", "b", "mask"}, {{"kernel_shape", Ints{2, 2}}});
  expect_near(run(), {-0.30360892, 0.071517199, -0.41267785, -0.1289216});
}

TEST_F(WrittenOut, DeformableConvolutionsNeedOffsetsForEachTap) {
  input("x", varied_numbers({1, 2, 3, 3}, 1));
  constant("w", {1, 2, 2, 2}, 2);
  constant("offsets", {1, 6, 2, 2}, 3);
  node("DeformConv", {"x", "w", "offsets"});
  EXPECT_THAT(error(), HasSubstr("offsets of [1, 6, 2, 2] with 1 groups, 1 of offsets"));
}

TEST_F(WrittenOut, RegionsAreAlignedWithBins) {
  input("x", varied_numbers({2, 1, 4, 4}, 1));
  input("regions", Tensor::from({2, 4}, Floats{0, 0, 3, 2, 1, 1, 6, 3}));
  input("images", Tensor::from({2}, Ints{1, 0}));
  node("RoiAlign", {"x", "regions", "images"},
       {{"output_height", 2}, {"output_width", 1}, {"sampling_ratio", 2}, {"spatial_scale", 0.5F}});
  expect_near(run(), {-0.58782542, -0.57839286, -0.0091944262, 0.3613373});
}

class AlignedRegions : public WrittenOut {
 protected:
  /// Two bins of each region, one above the other.
  void align(const Floats& regions, const char* mode) {
    std::vector<float> values;
    for (int i = 0; i < 120; ++i) values.push_back(std::sin(static_cast<float>(i) * 1.7F));
    input("x", Tensor::from({2, 2, 5, 6}, values));
    input("regions", Tensor::from({3, 4}, regions));
    input("images", Tensor::from({3}, Ints{1, 0, 1}));
    node("RoiAlign", {"x", "regions", "images"},
         {{"output_height", 2}, {"output_width", 1}, {"sampling_ratio", 0}, {"mode", mode}});
  }
};

const Floats kRegions = {0, 0, 5, 4, -1, -2, 3, 2.5F, 2, 1, 9, 7};  // the last leaves the image

/// Numbers of ONNX Runtime.
TEST_F(AlignedRegions, HaveTheMeanOfAsManySamplesAsPixels) {
  align(kRegions, "avg");
  expect_near(run(), {0.046629161, 0.077977687, 0.086244918, 0.027675867, 0.061343636, -0.023554513,
                      0.096036874, -0.0020607437, 0.020721385, 0.074754536, 0.0043580318, 0.12132917});
}

TEST_F(AlignedRegions, HaveTheLargestOfThese) {
  align(kRegions, "max");
  expect_near(run(), {0.99482679, 0.96496207, 0.99943542, 0.98327231, 0.99166483, 0.86770672, 0.67022914,
                      0.85801607, 0.96858686, 0.99328667, 0.94485211, 0.94515646});
}

TEST_F(AlignedRegions, ThatAreNotFiniteAreRefused) {
  align({0, 0, INFINITY, 2, 0, 0, 1, 1, 0, 0, 1, 1}, "avg");
  EXPECT_THAT(error_of([&] { run(); }), HasSubstr("samples a bin, expected at most 4096"));
}

TEST_F(AlignedRegions, OfInfiniteWidthBelowZeroHaveNoSamples) {
  align({0, 0, -INFINITY, 2, 0, 0, -INFINITY, 1, 0, 0, -INFINITY, 1}, "avg");
  expect_near(run(), std::vector<double>(12, 0));
}

TEST_F(WrittenOut, DeterminantsAreThoseOfSmallMatrices) {
  input("x", varied_numbers({2, 3, 3}, 1));
  node("Det", {"x"});
  expect_near(run(), {0.4906894, -0.32791185});
}

class BitwisePair : public WrittenOut, public testing::WithParamInterface<const char*> {};

TEST_P(BitwisePair, JoinsEachBit) {
  const Ints a = {5, -6, INT64_MIN, 0x123456789abcdef0, -1};
  const Ints b = {3, 12, -1, -0x0fedcba987654321, INT64_MAX};
  input("a", Tensor::from({5}, a));
  input("b", Tensor::from({5}, b));
  node(GetParam(), {"a", "b"});
  const std::string op = GetParam();
  const Tensor y = run();
  for (size_t i = 0; i < a.size(); ++i) {
    const int64_t expected = op == "BitwiseAnd" ? a[i] & b[i] : op == "BitwiseOr" ? a[i] | b[i] : a[i] ^ b[i];
    EXPECT_EQ(y.values<int64_t>()[i], expected) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Operators, BitwisePair, testing::Values("BitwiseAnd", "BitwiseOr", "BitwiseXor"),
                         [](const auto& op) { return std::string(op.param); });

TEST_F(WrittenOut, OnePixelIsReflectedToItself) {
  input("x", Tensor::from({1, 1, 2, 1}, Floats{-2.75F, -3.25F}));
  input("grid", Tensor::from({1, 3, 1, 2}, Floats{-0.625F, 0.375F, 1.25F, -1.125F, 1.125F, 1.25F}));
  node("GridSample", {"x", "grid"}, {{"padding_mode", "reflection"}, {"align_corners", 1}});
  expect_near(run(), {-3.09375, -2.78125, -3.1875});
}

TEST_F(WrittenOut, LabelsAreFoundByTheirKeys) {
  input("x", Tensor::from({2, 2}, Ints{1, 5, 3, 9}));
  node("LabelEncoder", {"x"},
       {{"keys_int64s", Ints{1, 3, 5}}, {"values_floats", Floats{0.5, 1.5, 2.5}}, {"default_float", -7.0F}},
       "ai.onnx.ml");
  expect_near(run(), {0.5, 2.5, 1.5, -7});
}

TEST_F(WrittenOut, FeaturesAreNormalizedByRows) {
  input("x", Tensor::from({2, 2}, Floats{3, -4, 0, 0}));
  node("Normalizer", {"x"}, {{"norm", "L2"}}, "ai.onnx.ml");
  expect_near(run(), {0.6, -0.8, 0, 0});
}

TEST_F(WrittenOut, FeaturesAreScaled) {
  input("x", Tensor::from({2, 2}, Ints{3, -4, 0, 1}));
  node("Scaler", {"x"}, {{"offset", Floats{1, 2}}, {"scale", Floats{0.5, 10}}}, "ai.onnx.ml");
  expect_near(run(), {1, -60, -0.5, -10});
}

TEST_F(WrittenOut, CategoriesBecomeColumns) {
  input("x", Tensor::from({2, 1}, Ints{4, 2}));
  node("OneHotEncoder", {"x"}, {{"cats_int64s", Ints{2, 3, 4}}}, "ai.onnx.ml");
  expect_near(run(), {0, 0, 1, 1, 0, 0});
}

TEST_F(WrittenOut, MissingFeaturesAreReplaced) {
  input("x", Tensor::from({2, 2}, Floats{NAN, -4, 0, NAN}));
  node("Imputer", {"x"}, {{"imputed_value_floats", Floats{5, 7}}, {"replaced_value_float", NAN}},
       "ai.onnx.ml");
  expect_near(run(), {5, -4, 0, 7});
}

TEST_F(WrittenOut, FeaturesStandSideBySide) {
  input("x", Tensor::from({2, 2}, Floats{1, 2, 3, 4}));
  input("k", Tensor::from({2, 1}, Ints{7, 8}));
  node("FeatureVectorizer", {"x", "k"}, {{"inputdimensions", Ints{2, 1}}}, "ai.onnx.ml");
  expect_near(run(), {1, 2, 7, 3, 4, 8});
}

TEST_F(WrittenOut, FeaturesOfOneSampleStandSideBySide) {
  input("x", Tensor::from({2}, Floats{1, 2}));
  input("k", Tensor::from({1}, Ints{7}));
  input("row", Tensor::from({1, 2}, Floats{8, 9}));
  input("encoded", Tensor::from({1, 2, 2}, Floats{0, 1, 1, 0}));
  node("FeatureVectorizer", {"x", "k", "row", "encoded"}, {{"inputdimensions", Ints{2, 1, 2, 4}}},
       "ai.onnx.ml");
  expect_near(run(), {1, 2, 7, 8, 9, 0, 1, 1, 0});
}

TEST_F(WrittenOut, LinearModelsAreLayers) {
  input("x", Tensor::from({1, 2}, Floats{1, -2}));
  node("LinearRegressor", {"x"},
       {{"coefficients", Floats{1, 2, 3, 4}}, {"intercepts", Floats{0.5, 1}}, {"targets", 2}}, "ai.onnx.ml");
  expect_near(run(), {-2.5, -4});
}

TEST_F(WrittenOut, LinearClassifiersGiveLabels) {
  input("x", Tensor::from({2, 2}, Floats{1, -2, 3, 1}));
  node("LinearClassifier", {"x"},
       {{"coefficients", Floats{1, 2, 0.5, 0}},
        {"intercepts", Floats{0, 0}},
        {"classlabels_ints", Ints{20, 30}},
        {"post_transform", "SOFTMAX"}},
       "ai.onnx.ml");
  const Tensor labels = run();
  EXPECT_EQ(Ints(labels.values<int64_t>().begin(), labels.values<int64_t>().end()), (Ints{30, 20}));
}

TEST_F(WrittenOut, ProbabilitiesByClassStayATensor) {
  input("x", Tensor::from({2, 2}, Floats{0.25, 0.75, 0.5, 0.5}));
  node("ZipMap", {"x"}, {{"classlabels_strings", std::vector<std::string>{"no", "yes"}}}, "ai.onnx.ml");
  expect_near(run(), {0.25, 0.75, 0.5, 0.5});
}

TEST_F(WrittenOut, ImagesAreScaledAsEarlyModelsDo) {
  input("x", Tensor::from({1, 2, 1, 2}, Floats{1, 2, 3, 4}));
  node("ImageScaler", {"x"}, {{"scale", 2.0F}, {"bias", Floats{10, 20}}});
  expect_near(run(), {12, 14, 26, 28});
}

TEST_F(WrittenOut, ImagesAreCropped) {
  input("x", Tensor::from({1, 1, 3, 4}, Floats{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
  node("Crop", {"x"}, {{"border", Ints{1, 0, 1, 1}}});
  expect_near(run(), {1, 2, 5, 6});
}

TEST_F(WrittenOut, RowsHaveDistances) {
  input("a", Tensor::from({2, 2}, Floats{0, 0, 3, 4}));
  input("b", Tensor::from({1, 2}, Floats{0, 0}));
  node("CDist", {"a", "b"}, {{"metric", "euclidean"}}, "com.microsoft");
  expect_near(run(), {0, 5});
}

}  // namespace
}  // namespace detent
