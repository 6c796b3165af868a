#include <gtest/gtest.h>

#include "detent/core/error.h"
#include "detent/files/json.h"
#include "detent/inference/integer_executor.h"
#include "detent/language/decoder.h"
#include "detent/language/families/families.h"
#include "detent/language/language_graph.h"
#include "detent/language/networks_for_test.h"

namespace detent {
namespace {

constexpr int64_t kPadding = 3;

LanguageConfig labelled_config(TokenPooling pooling) {
  LanguageConfig config = small_config();
  config.pad = kPadding;
  config.head = {.kind = HeadKind::kSequenceLabels, .pooling = pooling, .last_bias = false, .labels = 5};
  return config;
}

/// Logits of two sequences, of which the second has padding after it.
Tensor logits_of(const LanguageConfig& config, const std::vector<int64_t>& tokens,
                 const std::vector<int64_t>& mask) {
  WeightsForTest weights;
  const auto length = std::ssize(tokens) / 2;
  const std::vector<Tensor> inputs = {Tensor::from<int64_t>({2, length}, tokens),
                                      Tensor::from<int64_t>({2, length}, mask)};
  return IntegerProgram(build_language_graph(config, weights)).run(inputs).front();
}

TEST(LabelHeads, TakeTheLastTokenOtherThanPadding) {
  const LanguageConfig config = labelled_config(TokenPooling::kLast);
  const Tensor whole = logits_of(config, {5, 7, 9, 5, 7, 9}, {1, 1, 1, 1, 1, 1});
  const Tensor padded = logits_of(config, {5, 7, 9, 3, 3, 1, 2, 5, 7, 9}, {1, 1, 1, 0, 0, 1, 1, 1, 1, 1});
  EXPECT_EQ(whole.shape(), (Shape{2, 5}));
  EXPECT_TRUE(padded.rows(0, 1).equals(whole.rows(0, 1)));
  EXPECT_FALSE(padded.rows(1, 2).equals(whole.rows(0, 1)));
  LanguageConfig of_tokens = config;
  of_tokens.head.kind = HeadKind::kTokenLabels;
  const Tensor all = logits_of(of_tokens, {5, 7, 9, 5, 7, 9}, {1, 1, 1, 1, 1, 1});
  EXPECT_TRUE(all.reshaped({6, 5}).rows(2, 3).equals(whole.rows(0, 1)));
}

TEST(LabelHeads, AverageTokensOfTheMask) {
  for (const TokenPooling pooling : {TokenPooling::kMean, TokenPooling::kMeanOfLogits}) {
    LanguageConfig config = labelled_config(pooling);
    config.is_causal = false;
    const Tensor result = logits_of(config, {5, 7, 9, 11, 5, 7, 9, 11}, {1, 1, 1, 0, 1, 1, 1, 1});
    config.head.kind = HeadKind::kTokenLabels;
    const Tensor each = logits_of(config, {5, 7, 9, 11, 5, 7, 9, 11}, {1, 1, 1, 0, 1, 1, 1, 1});
    for (size_t sequence = 0; sequence < 2; ++sequence) {
      const size_t count = sequence == 0 ? 3 : 4;
      for (size_t label = 0; label < 5; ++label) {
        double sum = 0;
        for (size_t i = 0; i < count; ++i)
          sum += static_cast<double>(each.values<float>()[(sequence * 4 + i) * 5 + label]);
        EXPECT_NEAR(static_cast<double>(result.values<float>()[sequence * 5 + label]),
                    sum / static_cast<double>(count), 1e-5);
      }
    }
  }
}

TEST(LabelHeads, GiveNoText) {
  WeightsForTest weights;
  LanguageConfig config = labelled_config(TokenPooling::kLast);
  config.head.kind = HeadKind::kTokenLabels;
  const Graph graph = build_language_graph(config, weights);
  EXPECT_THROW(Decoder{graph}, Error);
}

TEST(LabelHeads, HaveTheNamesOfTheFile) {
  const auto read = [](const char* more) {
    const std::string text = R"({"model_type": "bert", "vocab_size": 61, "hidden_size": 16,
        "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12,
        "max_position_embeddings": 32, "architectures": ["BertForTokenClassification"])";
    return read_language_config(parse_json(text + more + "}", "config"), "config.json").head;
  };
  const NetworkHead named = read(R"(, "id2label": {"1": "PERSON", "0": "O", "2": "PLACE"})");
  EXPECT_EQ(named.labels, 3);
  EXPECT_EQ(named.names, (std::vector<std::string>{"O", "PERSON", "PLACE"}));
  EXPECT_TRUE(read(R"(, "id2label": {"1": "PERSON", "2": "PLACE"})").names.empty());
  EXPECT_EQ(read(R"(, "num_labels": 7)").labels, 7);
  EXPECT_EQ(read("").labels, 2);
}

}  // namespace
}  // namespace detent
