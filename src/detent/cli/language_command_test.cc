// Folders of language models on the command line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "detent/cli/language_model.h"
#include "detent/cli/program_for_test.h"
#include "detent/core/process_resources.h"
#include "detent/core/sanitizers_for_test.h"
#include "detent/core/value.h"
#include "detent/files/array_files.h"
#include "detent/files/file.h"
#include "detent/files/json.h"
#include "detent/files/safetensors.h"
#include "detent/files/temporary_file_test.h"
#include "detent/files/zip.h"
#include "detent/graph_files/graph_file.h"
#include "detent/language/cache_format.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

using testing::AllOf;
using testing::HasSubstr;

using Tensors = std::vector<std::pair<std::string, Tensor>>;

Tensor filled(const Shape& shape, float period) {
  Tensor tensor(DType::kFloat32, shape);
  float at = 0;
  for (float& x : tensor.values<float>()) x = std::sin(period * ++at);
  return tensor;
}

/// A GPT-2 of one layer with two heads, so many numbers wide.
void write_gpt2(const fs::path& folder, int64_t tokens = 13, int64_t positions = 10, int64_t wide = 8) {
  write_json(folder / "config.json", Value(Table{{"model_type", "gpt2"},
                                                 {"vocab_size", tokens},
                                                 {"n_embd", wide},
                                                 {"n_layer", 1},
                                                 {"n_head", 2},
                                                 {"n_positions", positions},
                                                 {"eos_token_id", 12}}));
  Tensors tensors = {{"transformer.wte.weight", filled({tokens, wide}, 1.7F)},
                     {"transformer.wpe.weight", filled({positions, wide}, 0.9F)},
                     {"transformer.h.0.attn.c_attn.weight", filled({wide, 3 * wide}, 1.1F)},
                     {"transformer.h.0.attn.c_attn.bias", filled({3 * wide}, 2.1F)},
                     {"transformer.h.0.attn.c_proj.weight", filled({wide, wide}, 1.3F)},
                     {"transformer.h.0.attn.c_proj.bias", filled({wide}, 0.3F)},
                     {"transformer.h.0.mlp.c_fc.weight", filled({wide, 4 * wide}, 0.7F)},
                     {"transformer.h.0.mlp.c_fc.bias", filled({4 * wide}, 1.9F)},
                     {"transformer.h.0.mlp.c_proj.weight", filled({4 * wide, wide}, 2.3F)},
                     {"transformer.h.0.mlp.c_proj.bias", filled({wide}, 1.2F)}};
  for (const char* norm : {"transformer.h.0.ln_1", "transformer.h.0.ln_2", "transformer.ln_f"}) {
    tensors.emplace_back(std::string(norm) + ".weight", filled({wide}, 0.2F));
    tensors.emplace_back(std::string(norm) + ".bias", filled({wide}, 1.4F));
  }
  write_safetensors(folder / "model.safetensors", tensors);
}

class LanguageCommand : public testing::Test {
 protected:
  LanguageCommand() {
    fs::create_directories(folder_);
    write_gpt2(folder_);
  }
  std::string ids(const std::vector<int64_t>& tokens) const {
    const fs::path file = folder_ / "ids.npy";
    write_npy(file, Tensor::from<int64_t>({1, static_cast<int64_t>(tokens.size())}, tokens));
    return "input_ids=" + file.string();
  }

  TemporaryPath temporary_{"language_command"};
  fs::path folder_ = temporary_.get();
};

TEST_F(LanguageCommand, InfoListsTheArchitecture) {
  const ProgramResult result = run_program({"info", folder_});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("kind: language model\nfamily: gpt2\n"), HasSubstr("layers: 1\n"),
                    HasSubstr("positions: a table of 10 rows\n"), HasSubstr("tied head: true\n"),
                    HasSubstr("transformer.h.0.mlp.c_fc.weight"), HasSubstr("[8, 32]")));
}

TEST_F(LanguageCommand, RunWritesLogitsOfEveryToken) {
  const fs::path out = folder_ / "out";
  const auto logits = [&](const std::vector<int64_t>& tokens) {
    const ProgramResult result =
        run_program({"run", folder_, "--input", ids(tokens), "--output-dir", out, "--overwrite"});
    EXPECT_EQ(result.status, 0) << result.errors;
    return read_npy(out / "logits.npy").clone();
  };
  const Tensor five = logits({1, 5, 12, 0, 7});
  EXPECT_EQ(five.shape(), (Shape{1, 5, 13}));
  // Later tokens change nothing of the earlier ones, and without a mask all are seen.
  const Tensor two = logits({1, 5});
  EXPECT_TRUE(two.reshaped({2, 13}).equals(five.reshaped({5, 13}).rows(0, 2)));
}

/// Zeros, which are measured otherwise, are tokens too.
TEST_F(LanguageCommand, BenchTakesInputsFromFiles) {
  const auto bench = [&](const std::string& input) {
    return run_program({"bench", folder_, "--seconds", "0", "--json", "--input", input});
  };
  EXPECT_EQ(bench(ids({1, 5, 12})).status, 0);
  EXPECT_THAT(bench(ids({1, -5, 12})).errors, HasSubstr("got the token -5, expected 0 or more"));
  EXPECT_THAT(bench("input_idz=" + (folder_ / "ids.npy").string()).errors,
              HasSubstr("did you mean \"input_ids\"?"));
  const fs::path floats = folder_ / "floats.npy";
  write_npy(floats, Tensor(DType::kFloat32, {1, 3}));
  EXPECT_THAT(bench("input_ids=" + floats.string()).errors, HasSubstr("got float32, expected int64"));
  const fs::path all = folder_ / "all.npz";
  EXPECT_THAT(bench(all).errors, HasSubstr("cannot open " + all.string()));
  for (const int64_t token : {5, 500}) {
    write_npy(folder_ / "one.npy", Tensor::from<int64_t>({1, 2}, std::vector<int64_t>{1, token}));
    ZipWriter archive(all);
    archive.add("input_ids.npy", read_file(folder_ / "one.npy"));
    archive.commit();
    EXPECT_EQ(bench(all).status, token == 5 ? 0 : 1) << token;
  }
}

TEST_F(LanguageCommand, QuantizeKeepsKeysAndValuesInAFormat) {
  const fs::path samples = folder_ / "samples.npy";
  write_npy(samples, Tensor::from<int64_t>({2, 4}, std::vector<int64_t>{1, 5, 12, 0, 7, 3, 2, 11}));
  const auto quantize = [&](const fs::path& network, const std::vector<std::string>& options) {
    std::vector<std::string> arguments = {"quantize",      network, "--calibration", samples,
                                          "--project-dir", folder_, "--project",     "p"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return run_program(arguments);
  };
  const ProgramResult done = quantize(folder_, {"--cache-format", "int4", "--keep-float", "head"});
  ASSERT_EQ(done.status, 0) << done.errors;
  const Graph graph = read_graph(folder_ / "p/software/quantize/graph_module.mz");
  for (const char* name : {"layers_0_attention_key_cache", "layers_0_attention_value_cache"}) {
    const Quantizer* const kept = graph.node(graph.node(name).inputs[0].node).find_quantizer("data_in_0");
    ASSERT_NE(kept, nullptr) << name;
    EXPECT_EQ(kept->spec.format, parse_cache_format("int4", ""));
  }
  EXPECT_EQ(graph.node("layers_0_attention_scores").find_quantizer("data_in_0"), nullptr);
  EXPECT_EQ(graph.node("head").find_quantizer("weight"), nullptr);
  EXPECT_NE(graph.node("layers_0_perceptron_up").find_quantizer("weight"), nullptr);
  EXPECT_THAT(quantize(folder_, {"--cache-format", "int16"}).errors,
              HasSubstr("--cache-format: got \"int16\""));
}

TEST_F(LanguageCommand, QuantizesWeightsAloneWithoutSamples) {
  const auto quantize = [&](const std::vector<std::string>& options) {
    std::vector<std::string> arguments = {"quantize", folder_, "--project-dir", folder_, "--project", "p"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return run_program(arguments);
  };
  const ProgramResult done = quantize({"--weights", "int4", "--activations", "float32"});
  ASSERT_EQ(done.status, 0) << done.errors;
  EXPECT_THAT(done.errors, HasSubstr("no calibration samples: errors are those on random inputs"));
  EXPECT_THAT(done.output, HasSubstr("integer execution: none: weights alone are quantized"));
  const Graph graph = read_graph(folder_ / "p/software/quantize/graph_module.mz");
  EXPECT_NE(graph.node("layers_0_perceptron_up").find_quantizer("weight"), nullptr);
  EXPECT_EQ(graph.node("layers_0_perceptron_up").find_quantizer("data_in_0"), nullptr);
  for (const auto& entry : fs::directory_iterator(folder_ / "p/software/quantize"))
    EXPECT_NE(entry.path().extension(), ".pt") << "a file of float weights";
  EXPECT_THAT(quantize({"--weights", "int4"}).errors, HasSubstr("no data set"));
  EXPECT_THAT(quantize({"--weights", "int4", "--activations", "float32", "--improve", "gptq"}).errors,
              HasSubstr("no data set"));
}

TEST_F(LanguageCommand, QuantizeCalibratesWithAText) {
  const fs::path text = folder_ / "text.txt";
  write_file(text, "a b a c b a a b c c a b a b c a");
  const auto quantize = [&] {
    return run_program(
        {"quantize", folder_, "--calibration", text, "--project-dir", folder_, "--project", "p"});
  };
  EXPECT_THAT(quantize().errors, HasSubstr("it has no tokenizer; calibrate with tokens, in a file .npy"));
  const Table vocabulary = {{"[UNK]", 0}, {"a", 1}, {"b", 2}, {"c", 3}};
  write_json(
      folder_ / "tokenizer.json",
      Value(Table{{"version", "1.0"},
                  {"added_tokens", List()},
                  {"pre_tokenizer", Table{{"type", "Whitespace"}}},
                  {"model", Table{{"type", "WordLevel"}, {"vocab", vocabulary}, {"unk_token", "[UNK]"}}}}));
  const ProgramResult done = quantize();
  EXPECT_EQ(done.status, 0) << done.errors;
  EXPECT_THAT(done.output, HasSubstr("calibration: 1 of 1 samples of " + text.string()));
}

TEST_F(LanguageCommand, QuantizedFoldersKeepTheirTokenizer) {
  Table vocabulary;
  for (int64_t id = 0; id < 13; ++id) vocabulary[std::string(1, static_cast<char>('a' + id))] = id;
  write_json(
      folder_ / "tokenizer.json",
      Value(Table{{"version", "1.0"},
                  {"added_tokens", List()},
                  {"pre_tokenizer", Table{{"type", "Whitespace"}}},
                  {"model", Table{{"type", "WordLevel"}, {"vocab", vocabulary}, {"unk_token", "a"}}}}));
  write_file(folder_ / "tokenizer_config.json", R"({"chat_template": "{{ messages[0].content }}"})");
  const auto quantize = [&](const fs::path& to) {
    return run_program({"quantize", folder_, "--weights", "int8", "--activations", "float32", "-o", to});
  };
  const fs::path out = folder_ / "out";
  ASSERT_EQ(quantize(out).status, 0);
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"})
    EXPECT_EQ(read_file(out / name), read_file(folder_ / name));
  EXPECT_THAT(end_tokens(out, std::nullopt), testing::ElementsAre(12)) << "of config.json";
  const ProgramResult text = run_program({"generate", out, "--prompt", "b c", "--max-tokens", "2"});
  EXPECT_EQ(text.status, 0) << text.errors;
  EXPECT_EQ(run_program({"generate", out, "--chat", "--prompt", "b c", "--max-tokens", "2"}).status, 0);

  write_file(folder_ / "generation_config.json", R"({"eos_token_id": [3, 4], "x": 1})");
  ASSERT_EQ(quantize(out).status, 0) << "the result is repeated";
  EXPECT_EQ(read_file(out / "generation_config.json"), read_file(folder_ / "generation_config.json"));
  EXPECT_THAT(end_tokens(out / "graph_module.mz", std::nullopt), testing::ElementsAre(3, 4));
  fs::create_directories(folder_ / "mine");
  write_file(folder_ / "mine/tokenizer.json", "mine");
  EXPECT_THAT(quantize(folder_ / "mine").errors, HasSubstr("tokenizer.json"));
  EXPECT_EQ(read_file(folder_ / "mine/tokenizer.json"), "mine");
}

TEST_F(LanguageCommand, RunRefusesTokensThatTheVocabularyDoesNotHave) {
  const auto refused = [&](const std::vector<int64_t>& tokens, const std::string& message) {
    const ProgramResult result = run_program({"run", folder_, "--input", ids(tokens)});
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.errors, HasSubstr(message));
  };
  refused({1, -2}, "ids.npy: got the token -2, expected 0 or more");
  refused({1, 13}, "node \"embed_tokens\" (embedding): got the index 13 of a dimension of 13");
  refused(std::vector<int64_t>(11, 3),
          "node \"embed_positions\" (embedding): got the index 10 of a dimension of 10");
}

/// Quantizes a network in a new process; leaves it with 0 where the announced memory was kept, and with more
/// where it was too little, or three times what was needed.
void quantize_as_announced(const char* activations) {
  const TemporaryPath temporary("announced");
  const fs::path& folder = temporary.get();
  fs::create_directories(folder);
  write_gpt2(folder, 9000, 16, 128);
  std::vector<int64_t> tokens(32);
  std::ranges::generate(tokens, [at = int64_t{0}]() mutable { return at += 37; });
  write_npy(folder / "samples.npy", Tensor::from<int64_t>({2, 16}, tokens));
  const ProgramResult result =
      run_program({"quantize", folder, "--calibration", folder / "samples.npy", "--weights", "int8",
                   "--activations", activations, "--project-dir", folder, "--project", "p"});
  const std::string begin = "memory: at most ";
  const size_t at = result.errors.find(begin);
  fmt::print(stderr, "{}", result.errors);
  if (result.status != 0 || at == std::string::npos) std::exit(3);
  const double announced = 1e6 * std::stod(result.errors.substr(at + begin.size()));
  const auto taken = static_cast<double>(resident_memory().most);
  fmt::print(stderr, "taken {}\n", taken);
  std::exit(taken > announced ? 1 : 3 * taken < announced ? 2 : 0);
}

TEST(LanguageCommandDeathTest, QuantizeTakesTheMemoryThatItAnnounces) {
  DETENT_SKIP_UNDER_SANITIZERS();  // which keep what is freed
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(quantize_as_announced("fp16"), testing::ExitedWithCode(0), "taken");
  EXPECT_EXIT(quantize_as_announced("int8"), testing::ExitedWithCode(0), "taken");
  EXPECT_EXIT(quantize_as_announced("float32"), testing::ExitedWithCode(0), "taken");
}

}  // namespace
}  // namespace detent
