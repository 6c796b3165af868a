#include "detent/language/sentence_modules.h"

#include <gtest/gtest.h>

#include <cmath>

#include "detent/core/error.h"
#include "detent/files/file.h"
#include "detent/files/temporary_file_test.h"
#include "detent/inference/integer_executor.h"
#include "detent/language/language_graph.h"
#include "detent/language/networks_for_test.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTransformer = R"({"path": "", "type": "sentence_transformers.models.Transformer"})";
constexpr const char* kPooling = R"({"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"})";
constexpr const char* kDense = R"({"path": "2_Dense", "type": "sentence_transformers.models.Dense"})";
constexpr const char* kNormalize =
    R"({"path": "2_Normalize", "type": "sentence_transformers.models.Normalize"})";

class SentenceModules : public testing::Test {
 protected:
  SentenceModules() { fs::create_directories(folder_.get() / "1_Pooling"); }

  NetworkHead read(const std::string& modules, const std::string& pooling) {
    write_file(folder_.get() / "modules.json", "[" + modules + "]");
    write_file(folder_.get() / "1_Pooling" / "config.json", "{" + pooling + "}");
    LanguageConfig config = small_config();
    config.head.kind = HeadKind::kMaskedTokens;
    read_sentence_modules(folder_.get(), config);
    return config.head;
  }
  void expect_refused(const std::string& modules, const std::string& pooling, const std::string& reason) {
    try {
      read(modules, pooling);
      ADD_FAILURE() << "took " << modules << pooling;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(reason), std::string::npos) << error.what();
    }
  }

  TemporaryPath folder_{"sentences"};
};

TEST_F(SentenceModules, TakeThePlaceOfAHead) {
  const std::string both = std::string(kTransformer) + "," + kPooling;
  const NetworkHead first = read(both, R"("word_embedding_dimension": 24, "pooling_mode_cls_token": true,
      "pooling_mode_mean_tokens": false)");
  EXPECT_EQ(first.kind, HeadKind::kEmbedding);
  EXPECT_EQ(first.pooling, TokenPooling::kFirst);
  EXPECT_FALSE(first.is_normalized);
  const NetworkHead last = read(both + "," + kNormalize, R"("pooling_mode_lasttoken": true)");
  EXPECT_EQ(last.pooling, TokenPooling::kLastSeen);
  EXPECT_TRUE(last.is_normalized);
  EXPECT_EQ(read(both, "").pooling, TokenPooling::kMean);
  EXPECT_EQ(read(both, R"("pooling_mode": "mean")").pooling, TokenPooling::kMean);
  EXPECT_EQ(read(both, R"("pooling_mode": ["cls"])").pooling, TokenPooling::kFirst);
  EXPECT_EQ(read(kTransformer, "").kind, HeadKind::kMaskedTokens);
}

TEST_F(SentenceModules, MayHaveALayer) {
  fs::create_directories(folder_.get() / "2_Dense");
  const fs::path file = folder_.get() / "2_Dense" / "config.json";
  const std::string all = std::string(kTransformer) + "," + kPooling + "," + kDense + "," + kNormalize;
  write_file(file, R"({"in_features": 24, "out_features": 7, "bias": false,
      "activation_function": "torch.nn.modules.linear.Identity"})");
  const NetworkHead head = read(all, "");
  EXPECT_EQ(head.size, 7);
  EXPECT_EQ(head.folder, "2_Dense");
  EXPECT_FALSE(head.layer_bias);
  EXPECT_FALSE(head.activation.has_value());
  EXPECT_TRUE(head.is_normalized);
  write_file(file, R"({"in_features": 24, "out_features": 7})");
  EXPECT_EQ(read(all, "").activation, Activation::kTanh);
  write_file(file, R"({"in_features": 24, "out_features": 7, "activation_function": "torch.nn.ELU"})");
  expect_refused(all, "", "torch.nn.ELU");
  write_file(file, R"({"in_features": 25, "out_features": 7})");
  expect_refused(all, "", "other than 24");
}

TEST_F(SentenceModules, RefuseOthersByName) {
  const std::string both = std::string(kTransformer) + "," + kPooling;
  expect_refused(both, R"("pooling_mode_max_tokens": true)", "\"pooling_mode_max_tokens\" is true");
  expect_refused(both, R"("pooling_mode": "max")", "expected cls, mean or lasttoken");
  expect_refused(both, R"("pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true)", "2 kinds");
  expect_refused(both, R"("word_embedding_dimension": 25)", "other than 24");
  expect_refused(both + "," + kNormalize + "," + kDense, "", "the module Dense");
  expect_refused(both + R"(, {"path": "2_CNN", "type": "sentence_transformers.models.CNN"})", "", "CNN");
  expect_refused(R"({"path": "../x", "type": "Pooling"})", "", "../x");
}

/// Rows of the result against loops over the last hidden states.
TEST(SequenceEmbedding, PoolsAndNormalizes) {
  const std::vector<int64_t> mask = {1, 1, 1, 0, 1, 1, 1, 1};
  const std::vector<Tensor> inputs = {Tensor::from<int64_t>({2, 4}, {5, 7, 9, 11, 8, 7, 6, 5}),
                                      Tensor::from<int64_t>({2, 4}, mask)};
  for (const TokenPooling pooling : {TokenPooling::kFirst, TokenPooling::kLastSeen, TokenPooling::kMean}) {
    WeightsForTest weights;
    LanguageConfig config = small_config();
    config.is_causal = false;
    config.head = {.kind = HeadKind::kEmbedding, .pooling = pooling, .is_normalized = true};
    const std::vector<Tensor> results = IntegerProgram(build_language_graph(config, weights)).run(inputs);
    const auto states = results[0].values<float>();
    const auto size = static_cast<size_t>(config.hidden);
    ASSERT_EQ(results[1].shape(), (Shape{2, config.hidden}));
    for (size_t row = 0; row < 2; ++row) {
      std::vector<double> expected(size);
      for (size_t token = 0; token < 4; ++token) {
        const bool is_last = token == (row == 0 ? 2U : 3U);
        const bool counts = pooling == TokenPooling::kFirst      ? token == 0
                            : pooling == TokenPooling::kLastSeen ? is_last
                                                                 : mask[row * 4 + token] != 0;
        for (size_t i = 0; i < size && counts; ++i)
          expected[i] += static_cast<double>(states[(row * 4 + token) * size + i]);
      }
      double square = 0;
      for (const double x : expected) square += x * x;
      for (size_t i = 0; i < size; ++i)
        EXPECT_NEAR(static_cast<double>(results[1].values<float>()[row * size + i]),
                    expected[i] / std::sqrt(square), 1e-6);
    }
  }
}

}  // namespace
}  // namespace detent
