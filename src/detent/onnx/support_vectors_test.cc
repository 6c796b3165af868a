#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/error_of_for_test.h"
#include "detent/inference/integer_executor.h"
#include "detent/onnx/import_onnx.h"
#include "detent/onnx/model_for_test.h"
#include "detent/onnx/results_for_test.h"

// Support vector machines of ai.onnx.ml; numbers without an equation are those of ONNX Runtime 1.32.

namespace detent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Numbers = std::vector<float>;
using Counts = std::vector<int64_t>;

const Tensor kSamples = Tensor::from({4, 2}, Numbers{1, 0, 0.5, -1, -1, 2, 0.25, 0.5});
const Numbers kVectors = {1, 0, 0, 1, -1, -1, 0.5, 2, -2, 0.5};

/// A node of the domain, with a kernel of gamma 0.5, coef0 0.25 and degree 3.
struct MachineModel : OnnxModelForTest {
  MachineModel(const std::string& op, const std::string& kernel, const std::vector<OnnxAttribute>& attributes,
               const std::vector<std::string>& outputs)
      : OnnxModelForTest(17) {
    input("x", {-1, 2});
    for (const std::string& name : outputs) output(name);
    std::vector<OnnxAttribute> all = {{"kernel_type", kernel.c_str()},
                                      {"kernel_params", Numbers{0.5, 0.25, 3}}};
    all.insert(all.end(), attributes.begin(), attributes.end());
    node(op, {"x"}, outputs, all).set_domain("ai.onnx.ml");
  }
  std::vector<Tensor> run() const {
    const Graph graph = import_onnx(write());
    return IntegerExecutor().compile(graph)->run(std::vector<Tensor>{kSamples});
  }
};

/// Three classes with 2, 1 and 2 vectors.
MachineModel classifier(const std::string& kernel, const std::vector<OnnxAttribute>& more = {}) {
  std::vector<OnnxAttribute> attributes = {
      {"vectors_per_class", Counts{2, 1, 2}},
      {"support_vectors", kVectors},
      {"coefficients", Numbers{1, 0.5, -1, -0.5, -0.25, 0.75, 0.25, -0.5, -1, 2}},
      {"rho", Numbers{0.125, -0.25, 0.5}},
      {"classlabels_ints", Counts{10, 20, 30}}};
  attributes.insert(attributes.end(), more.begin(), more.end());
  return MachineModel("SVMClassifier", kernel, attributes, {"label", "scores"});
}

Counts labels_of(const std::vector<Tensor>& results) {
  const auto labels = results.at(0).values<int64_t>();
  return {labels.begin(), labels.end()};
}

TEST(SupportVectors, EachPairOfClassesHasAVote) {
  const std::vector<Tensor> linear = classifier("LINEAR").run();
  EXPECT_THAT(labels_of(linear), ElementsAre(10, 10, 10, 30));
  expect_near(linear.at(1), {2.125, 0.75, -3.5, -0.375, 1.125, -1, 1.125, -3, 3.5, 1.375, -0.4375, -0.75});
  const std::vector<Tensor> cubic = classifier("POLY").run();
  EXPECT_THAT(labels_of(cubic), ElementsAre(10, 10, 10, 30));
  expect_near(cubic.at(1), {0.5703125, 0.11328125, -0.4609375, 0.1171875, -0.0068359375, 0.431640625,
                            1.1015625, -5.11328125, 3.2265625, 0.2421875, -0.4478759766, -0.0314941406});
}

TEST(SupportVectors, KernelsMayBeRadialOrSigmoids) {
  const std::vector<Tensor> radial = classifier("RBF").run();
  EXPECT_THAT(labels_of(radial), ElementsAre(10, 10, 10, 10));
  expect_near(radial.at(1), {1.2268547, 0.5298024, 0.3591318, 0.3953255, 0.1721838, 0.3550932, 0.3161464,
                             -0.3558476, 0.5636164, 1.0701795, 0.2862222, 0.2701367});
  expect_near(classifier("SIGMOID").run().at(1),
              {1.1275270, 0.2153201, -1.1099558, 0.0025407, 0.4281873, -0.1006932, 0.5491418, -0.9389758,
               1.5411829, 0.8387690, -0.2322745, 0.1399154});
}

TEST(SupportVectors, ProbabilitiesOfPairsAreCoupled) {
  const std::vector<Tensor> results =
      classifier("RBF", {{"prob_a", Numbers{-1.5, -2, -1}}, {"prob_b", Numbers{0.25, 0, -0.5}}}).run();
  EXPECT_THAT(labels_of(results), ElementsAre(10, 10, 10, 10));
  expect_near(results.at(1), {0.6626689, 0.1741333, 0.1631978, 0.4247132, 0.3558774, 0.2194094, 0.3049520,
                              0.4229683, 0.2720798, 0.5705426, 0.2113088, 0.2181485});
}

TEST(SupportVectors, TwoClassesHaveOneScoreAndItsNegative) {
  const MachineModel model("SVMClassifier", "LINEAR",
                           {{"vectors_per_class", Counts{1, 1}},
                            {"support_vectors", Numbers{1, 0, 0, 1}},
                            {"coefficients", Numbers{2, -1}},
                            {"rho", Numbers{-0.5}},
                            {"classlabels_strings", std::vector<std::string>{"no", "yes"}}},
                           {"label", "scores"});
  const std::vector<Tensor> results = model.run();
  EXPECT_THAT(labels_of(results), ElementsAre(0, 0, 1, 1));
  expect_near(results.at(1), {-1.5, 1.5, -1.5, 1.5, 4.5, -4.5, 0.5, -0.5});  // 2 x0 - x1 - 0.5
}

TEST(SupportVectors, RegressorsGiveASumOrASide) {
  std::vector<OnnxAttribute> attributes = {{"n_supports", 5},
                                           {"support_vectors", kVectors},
                                           {"coefficients", Numbers{1, 0.5, -1, -0.5, -0.25}},
                                           {"rho", Numbers{-0.375}}};
  expect_near(MachineModel("SVMRegressor", "RBF", attributes, {"y"}).run().at(0),
              {0.6646873, -0.1137951, -0.3954077, 0.3929578});
  attributes.emplace_back("one_class", 1);
  expect_near(MachineModel("SVMRegressor", "RBF", attributes, {"y"}).run().at(0), {1, -1, -1, 1});
  const MachineModel plain("SVMRegressor", "LINEAR",
                           {{"coefficients", Numbers{2, -1}}, {"rho", Numbers{0.5}}}, {"y"});
  expect_near(plain.run().at(0), {2.5, 2.5, -3.5, 0.5});  // 2 x0 - x1 + 0.5
}

TEST(SupportVectors, DamagedOnesAreRefused) {
  const auto error = [](const std::vector<OnnxAttribute>& more) {
    std::vector<OnnxAttribute> attributes = {{"coefficients", Numbers{1, 2, 3}}, {"rho", Numbers{0}}};
    attributes.insert(attributes.end(), more.begin(), more.end());
    const MachineModel model("SVMRegressor", "SPLINE", attributes, {"y"});
    return error_of([&] { import_onnx(model.write()); });
  };
  EXPECT_THAT(error({{"n_supports", 2}, {"support_vectors", Numbers{1, 2, 3}}}),
              HasSubstr("3 numbers of 2 support vectors"));
  EXPECT_THAT(error({{"n_supports", 1}, {"support_vectors", Numbers{1, 2, 3}}}),
              HasSubstr("support vectors of 3 features for an input of 2"));
  EXPECT_THAT(error({{"n_supports", 2}, {"support_vectors", Numbers{1, 2, 3, 4}}}),
              HasSubstr("kernel_type \"SPLINE\", expected LINEAR, POLY, RBF or SIGMOID"));
}

}  // namespace
}  // namespace detent
