// Language models across layers: what transformers computes of them, the engine, ONNX files.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "detent/core/convert.h"
#include "detent/engine/fast_executor.h"
#include "detent/files/array_files.h"
#include "detent/files/file.h"
#include "detent/files/temporary_file_test.h"
#include "detent/language/cache_format.h"
#include "detent/language/decoder.h"
#include "detent/language/language_model.h"
#include "detent/language/networks_for_test.h"
#include "detent/language/perplexity.h"
#include "detent/onnx/export_onnx.h"
#include "detent/onnx/import_onnx.h"
#include "detent/passes/pass_bench_for_test.h"
#include "detent/tokenizers/gguf/gguf_tokenizer.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

constexpr const char* kGolden = DETENT_SOURCE_DIR "/../shared/golden/lm";

using Arrays = std::map<std::string, Tensor>;

/// Folders of models with what transformers computes of them.
std::vector<fs::path> golden_folders() {
  std::vector<fs::path> folders;
  if (!fs::exists(kGolden)) return folders;
  for (const fs::directory_entry& entry : fs::directory_iterator(kGolden)) {
    if (fs::exists(entry.path() / "config.json") && fs::exists(entry.path() / "expected.npz"))
      folders.push_back(entry.path());
  }
  std::ranges::sort(folders);
  return folders;
}

/// Beside the largest element, where the mask is 1.
double difference(const Tensor& got, const Tensor& expected, const Tensor& mask) {
  double most = 0;
  double largest = 0;
  const auto row = static_cast<size_t>(got.dim(-1));
  for (size_t i = 0; i < got.values<float>().size(); ++i) {
    if (mask.values<int64_t>()[i / row] == 0) continue;
    const double wanted = expected.values<double>()[i];
    most = std::max(most, std::fabs(static_cast<double>(got.values<float>()[i]) - wanted));
    largest = std::max(largest, std::fabs(wanted));
  }
  return most / largest;
}

/// Compares up to where two tokens are about equally likely. Weights that stay in the folder give the same.
void expect_greedy(const Graph& graph, const Arrays& arrays, const fs::path& name) {
  constexpr double kMargin = 1e-4;
  const Decoder decoder(graph);
  SequenceCache cache = decoder.start();
  const Tensor& ids = arrays.at("ids");
  const auto prompt = ids.values<int64_t>().first(static_cast<size_t>(ids.dim(1)));
  Tensor logits = decoder.run(cache, prompt);
  LanguageModel model = read_folder_model(name);
  const Decoder deferred(std::move(model.graph), std::move(model.weights));
  SequenceCache of_deferred = deferred.start();
  EXPECT_TRUE(deferred.run(of_deferred, prompt).equals(logits)) << name;
  for (size_t i = 0; i < arrays.at("greedy").values<int64_t>().size(); ++i) {
    if (arrays.at("margins").values<double>()[i] < kMargin) return;
    const auto values = logits.values<float>();
    const int64_t token = std::ranges::max_element(values) - values.begin();
    ASSERT_EQ(token, arrays.at("greedy").values<int64_t>()[i]) << name << ", token " << i;
    logits = decoder.run(cache, std::span(&token, 1));
  }
}

TEST(LanguageModels, ComputeWhatTransformersComputes) {
  const std::vector<fs::path> folders = golden_folders();
  if (folders.empty()) GTEST_SKIP() << "no models in ../shared/golden/lm";
  for (const fs::path& folder : folders) {
    Arrays arrays;
    for (auto& [name, tensor] : read_npz(folder / "expected.npz")) arrays.emplace(name, tensor);
    const Graph graph = read_language_folder(folder);
    Tensor mask = arrays.at("mask");
    std::vector<Tensor> inputs = {arrays.at("ids"), mask};
    if (graph.input_names().size() == 3) inputs.emplace_back(DType::kInt64, mask.shape());
    const Tensor got = FastProgram(graph).run(inputs).front();
    const auto expected =
        arrays.find("logits") != arrays.end() ? arrays.at("logits") : arrays.at("last_hidden_state");
    EXPECT_LT(difference(got, expected, mask), 1e-5) << folder;
    if (arrays.contains("greedy")) expect_greedy(graph, arrays, folder);
  }
}

/// SmolLM2-135M where $DETENT_MODELS, or the folder for caches, has it.
fs::path smollm2() {
  const char* folder = std::getenv("DETENT_MODELS");
  const char* home = std::getenv("HOME");
  const fs::path models = folder != nullptr ? fs::path(folder) : fs::path(home) / ".cache/detent-models";
  return models / "smollm2-135m-q4_1.gguf";
}

/// Losses of the first tokens, and the ids of the text, which the file's own tokenizer gives.
TEST(LanguageModels, OfGgufFilesComputeWhatTransformersComputes) {
  const fs::path expected = fs::path(kGolden) / "smollm2-135m/expected.npz";
  const fs::path text = fs::path(kGolden) / "../../data/text/wikitext-2/test.txt";
  if (!fs::exists(smollm2()) || !fs::exists(expected) || !fs::exists(text))
    GTEST_SKIP() << "needs " << smollm2() << ", " << expected << " and " << text;
  constexpr int64_t kTokens = 64;
  Arrays arrays;
  for (auto& [name, tensor] : read_npz(expected)) arrays.emplace(name, tensor);
  const auto ids = arrays.at("ids").values<int64_t>();
  const std::vector<int64_t> tokens =
      read_gguf_tokenizer(read_gguf(smollm2()).metadata).encode(read_file(text).substr(0, 40'000));
  ASSERT_GE(tokens.size(), ids.size());
  EXPECT_TRUE(std::equal(ids.begin(), ids.end(), tokens.begin()));
  const Decoder decoder(read_language_gguf(smollm2()));
  const PerplexityOptions options{.window = kTokens, .windows = 1};
  const TokenScores scores =
      score_tokens(logits_of(decoder), {}, ids, token_windows(options, kTokens), options);
  for (size_t i = 0; i < scores.losses.size(); ++i)
    EXPECT_NEAR(scores.losses[i], arrays.at("nll").values<double>()[i], 1e-4) << i;
}

LanguageConfig encoder_config() {
  LanguageConfig config = small_config();
  config.is_causal = false;
  config.norm = NormKind::kLayerNorm;
  config.norm_place = NormPlace::kAfter;
  config.final_norm = false;
  config.embedding_norm = true;
  config.rotary = config.window_rotary = {};
  config.positions = 40;
  config.position_count = PositionCount::kUnpadded;
  config.position_offset = 2;
  config.pad = 1;
  config.perceptron = PerceptronKind::kPlain;
  config.activation = Activation::kGelu;
  config.qkv_bias = config.output_bias = config.perceptron_bias = true;
  return config;
}

LanguageConfig window_config() {
  LanguageConfig config = small_config();
  config.window = 5;
  config.has_window = {false, true};
  config.qk_norm = true;
  config.norm_place = NormPlace::kAround;
  config.score_cap = 5;
  config.logit_cap = 7;
  config.tied_head = true;
  config.rotary = rotary_of({}, 6, config.context);
  return config;
}

LanguageConfig attended_config() {
  LanguageConfig config = encoder_config();
  config.is_causal = true;
  config.embedding_norm = false;
  config.position_count = PositionCount::kAttended;
  return config;
}

/// Nodes of that type, as the file spells it: field 4 of a node, 9 bytes.
int64_t attentions_in(const fs::path& path) {
  constexpr std::string_view kType = "\"\tAttention";
  const std::string bytes = read_file(path);
  int64_t count = 0;
  for (size_t i = bytes.find(kType); i != std::string::npos; i = bytes.find(kType, i + 1)) ++count;
  return count;
}

TEST(LanguageModels, AreTheSameInTheEngineAndAfterAnOnnxFile) {
  for (const LanguageConfig& config :
       {small_config(), window_config(), encoder_config(), attended_config()}) {
    WeightsForTest weights;
    const Graph graph = build_language_graph(config, weights);
    std::vector<int64_t> mask(size_t{2} * 17, 1);
    std::fill(mask.end() - 4, mask.end(), 0);
    const std::vector<Tensor> inputs = {
        Tensor::from<int64_t>({2, 17}, tokens_for_test(int64_t{2} * 17, config.vocabulary)),
        Tensor::from<int64_t>({2, 17}, mask)};
    const Tensor expected = FastProgram(graph).run(inputs).front();
    for (const int64_t opset : {17, 23}) {
      const TemporaryPath file("language.onnx");
      export_onnx(graph, file.get(), {.opset = opset});
      EXPECT_EQ(attentions_in(file.get()), opset == 23 ? config.layers : 0);
      // SiLU is a product with a sigmoid in ONNX, which rounds once more.
      const Tensor read_back = FastProgram(import_onnx(file.get())).run(inputs).front();
      EXPECT_LT(difference(read_back, to_dtype(expected, DType::kFloat64), inputs[1]), 1e-6);
    }
    if (!config.is_causal) continue;
    const Decoder decoder(graph);
    SequenceCache cache = decoder.start();
    const Tensor logits =
        decoder.run(cache, inputs[0].values<int64_t>().first(17), WantedLogits::kOfAllTokens);
    EXPECT_TRUE(logits.equals(expected.rows(0, 1).reshaped(logits.shape())));
  }
}

/// Texts of one length, all of which is seen.
class TokenSamples final : public CalibrationSet {
 public:
  int64_t size() const override { return 6; }
  std::vector<Tensor> inputs(int64_t begin, int64_t end) const override {
    constexpr int64_t kLength = 20;
    const std::vector<int64_t> all = tokens_for_test(size() * kLength, small_config().vocabulary);
    const Tensor tokens = Tensor::from<int64_t>({size(), kLength}, all);
    Tensor mask(DType::kInt64, {end - begin, kLength});
    std::ranges::fill(mask.values<int64_t>(), 1);
    return {tokens.rows(begin, end).clone(), mask};
  }
  uint64_t fingerprint() const override { return 1; }
};

/// small_config() quantized with options of static_quantize.
Graph quantized_network(const std::string& options) {
  WeightsForTest weights;
  PassBench bench(build_language_graph(small_config(), weights));
  bench.graph = build_language_graph(small_config(), weights);
  bench.context.open_calibration = [] { return std::make_unique<TokenSamples>(); };
  bench.run_passes("[passes.static_quantize]\nreport = false\nnum_samples = 6\n" + options);
  return std::move(bench.graph);
}

/// Token by token, and two sequences beside each other, the logits are those of the whole text.
void expect_decoded(const Graph& graph) {
  constexpr int64_t kTokens = 70;  // more than a page of the cache
  const std::vector<int64_t> tokens = tokens_for_test(kTokens, small_config().vocabulary);
  const std::vector<Tensor> inputs = {
      Tensor::from<int64_t>({1, kTokens}, tokens),
      Tensor::from<int64_t>({1, kTokens}, std::vector<int64_t>(tokens.size(), 1))};
  const Tensor expected = FastProgram(graph).run(inputs).front();
  const Tensor rows = expected.reshaped({kTokens, expected.dim(2)});
  const Decoder decoder(graph);
  SequenceCache cache = decoder.start();
  SequenceCache ahead = decoder.start();
  decoder.run(ahead, std::span(tokens).first(3));
  for (int64_t i = 0; i < kTokens; ++i) {
    const auto place = static_cast<size_t>(i);
    std::vector<DecoderInput> at_once = {{&cache, std::span(tokens).subspan(place, 1)}};
    if (i + 3 < kTokens) at_once.push_back({&ahead, std::span(tokens).subspan(place + 3, 1)});
    const std::vector<Tensor> logits = decoder.run(at_once);
    ASSERT_TRUE(logits[0].equals(rows.rows(i, i + 1))) << i;
    if (logits.size() > 1) {
      ASSERT_TRUE(logits[1].equals(rows.rows(i + 3, i + 4))) << i;
    }
  }
}

TEST(LanguageModels, DecodeInIntegersWhatTheyComputeAtOnce) {
  const Graph graph = quantized_network("activations = \"int8\"\n");
  EXPECT_NE(graph.node("layers_1_attention_scores").find_quantizer("data_in_1"), nullptr);
  EXPECT_NE(graph.node("layers_1_attention_sums").find_quantizer("data_in_0"), nullptr);
  expect_decoded(graph);
}

TEST(LanguageModels, DecodeInOtherFormatsWhatTheyComputeAtOnce) {
  for (const char* options :
       {"activations = \"fp8_e4m3fn\"\n", "weights = \"int4_g8\"\nactivations = \"fp8_e4m3fn\"\n",
        "weights = \"nvfp4\"\nactivations = \"int8\"\n", "activations = \"int12\"\n",
        "weights = \"fp8_e4m3fn\"\nactivations = \"fp16\"\n",
        "weights = \"mx_e4m3\"\nactivations = \"int8\"\n",
        "activations = \"fp8_e4m3fn\"\naccumulator = \"fp16\"\n",
        R"(activations = "int8"
keep_float = ["layers_0_attention_scores", "layers_1_attention_sums"]
)"}) {
    SCOPED_TRACE(options);
    expect_decoded(quantized_network(options));
  }
}

TEST(LanguageModels, PackWeightsWithoutCodesOfLayersThatTakeCodes) {
  const Decoder of_codes(quantized_network("weights = \"mx_e4m3\"\nactivations = \"int8\"\n"));
  const Decoder of_values(quantized_network("weights = \"mx_e4m3\"\nactivations = \"fp16\"\n"));
  EXPECT_GT(of_codes.weight_bytes(), 0);
  EXPECT_EQ(of_codes.weight_bytes(), of_values.weight_bytes());
}

TEST(LanguageModels, DecodeWithACacheInFewBitsBesideIntegers) {
  Graph graph = quantized_network("keep_float = [\"layers_._attention_(scores|sums)\"]\n");
  quantize_cache(graph, parse_cache_format("int4", "test"));
  expect_decoded(graph);
}

}  // namespace
}  // namespace detent
