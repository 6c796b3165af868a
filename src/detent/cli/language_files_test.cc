#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "detent/checkpoints/gguf/gguf_file.h"
#include "detent/checkpoints/gguf/gguf_for_test.h"
#include "detent/cli/language_model.h"
#include "detent/cli/program_for_test.h"
#include "detent/cli/read_network.h"
#include "detent/core/error_of_for_test.h"
#include "detent/files/file.h"
#include "detent/files/temporary_file_test.h"
#include "detent/language/language_model.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<float> wave(int64_t count, float period) {
  std::vector<float> values(static_cast<size_t>(count));
  float at = 0;
  for (float& value : values) value = std::sin(period * ++at);
  return values;
}

/// A Llama of one layer and seven tokens, which two of them end.
GgufBytes small_llama() {
  GgufBytes bytes;
  bytes.text("general.architecture", "llama").integer("llama.block_count", 1);
  bytes.integer("llama.context_length", 64).integer("llama.embedding_length", 8);
  bytes.integer("llama.feed_forward_length", 16).integer("llama.attention.head_count", 2);
  bytes.real("llama.attention.layer_norm_rms_epsilon", 1e-5F);
  bytes.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "gpt-2");
  bytes.entry("tokenizer.ggml.tokens", GgufType::kArray,
              GgufBytes::texts_bytes({"<s>", "a", "b", "<e>", "ab", "<f>", "\xC4\xA0"}));
  std::string types;
  for (const int32_t type : {3, 1, 1, 3, 1, 3, 1}) types += GgufBytes::number_bytes(type);
  bytes.entry("tokenizer.ggml.token_type", GgufType::kArray,
              GgufBytes::array_bytes(GgufType::kInt32, 7, types));
  bytes.entry("tokenizer.ggml.merges", GgufType::kArray, GgufBytes::texts_bytes({"a b"}));
  bytes.integer("tokenizer.ggml.bos_token_id", 0).integer("tokenizer.ggml.eos_token_id", 3);
  bytes.integer("tokenizer.ggml.eot_token_id", 5);
  bytes.text("tokenizer.chat_template", "{% for m in messages %}{{ m.content }}{% endfor %}");
  bytes.floats("token_embd.weight", {7, 8}, wave(56, 1.7F)).floats("output_norm.weight", {8}, wave(8, 0.2F));
  bytes.floats("blk.0.attn_norm.weight", {8}, wave(8, 0.3F))
      .floats("blk.0.ffn_norm.weight", {8}, wave(8, 0.4F));
  for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output"})
    bytes.floats(fmt::format("blk.0.{}.weight", name), {8, 8}, wave(64, 1.1F));
  bytes.floats("blk.0.ffn_gate.weight", {16, 8}, wave(128, 0.9F));
  bytes.floats("blk.0.ffn_up.weight", {16, 8}, wave(128, 1.3F));
  bytes.floats("blk.0.ffn_down.weight", {8, 16}, wave(128, 0.7F));
  return bytes;
}

class LanguageFiles : public testing::Test {
 protected:
  LanguageFiles() {
    fs::create_directories(folder_.get());
    write_file(model(), small_llama().bytes());
  }
  std::string model() const { return folder_.get() / "model.gguf"; }
  std::string path(const std::string& name) const { return folder_.get() / name; }

  TemporaryPath folder_{"language_files"};
};

TEST_F(LanguageFiles, QuantizedGraphsOfGgufFilesKeepTheirTexts) {
  const std::string out = path("out-0.1b");
  const ProgramResult done =
      run_program({"quantize", model(), "--weights", "int8", "--activations", "float32", "-o", out});
  ASSERT_EQ(done.status, 0) << done.errors;
  const auto before = find_tokenizer(model());
  const auto after = find_tokenizer(out);
  ASSERT_TRUE(before && after);
  const std::string text = "abba<e> a";
  EXPECT_EQ(after->encode(text), before->encode(text));
  EXPECT_EQ(after->description(), before->description());
  EXPECT_EQ(find_model_template(out), find_model_template(model()));
  for (const std::string& place : {model(), out, out + "/graph_module.mz"})
    EXPECT_THAT(end_tokens(place, std::nullopt), ElementsAre(3, 5)) << place;
  for (const std::vector<std::string>& how :
       {std::vector<std::string>{"--prompt", "ab"}, {"--prompt", "ab", "--chat"}}) {
    std::vector<std::string> args = {"generate", out, "--max-tokens", "3"};
    args.insert(args.end(), how.begin(), how.end());
    EXPECT_EQ(run_program(args).status, 0) << run_program(args).errors;
  }
  EXPECT_TRUE(read_gguf(fs::path(out) / kGgufTokenizer).tensors.empty());
}

TEST_F(LanguageFiles, TransformedAndSearchedGraphsKeepThemToo) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += "ab ba abab baab aabb ";
  write_file(path("two.txt"), text);
  const ProgramResult searched = run_program(
      {"search", model(), "--calibration", path("two.txt"), "--weights", "int8,int4", "--activations", "int8",
       "--evaluations", "2", "--min-sqnr", "1", "--project-dir", folder_.get(), "--project", "p"});
  ASSERT_EQ(searched.status, 0) << searched.errors;
  EXPECT_TRUE(find_tokenizer(path("p/software/search/best.mz")));
  for (const auto& entry : fs::directory_iterator(path("p/software/search/points")))
    EXPECT_THAT(end_tokens(entry.path(), std::nullopt), ElementsAre(3, 5)) << entry.path();
  write_file(path("fold.toml"), "[passes.fuse_batch_norm]\n");
  const ProgramResult transformed =
      run_program({"transform", "--config", path("fold.toml"), "--load", model(), "--calibration",
                   path("two.txt"), "--project-dir", folder_.get(), "--project", "p"});
  ASSERT_EQ(transformed.status, 0) << transformed.errors;
  EXPECT_TRUE(find_tokenizer(path("p/software/transform/transformed_ckpt")));
}

TEST_F(LanguageFiles, NeverReplaceWhatTheUserMade) {
  const std::string out = path("out");
  fs::create_directories(out);
  write_file(out + "/" + kGgufTokenizer, "mine");
  const ProgramResult refused =
      run_program({"quantize", model(), "--weights", "int8", "--activations", "float32", "-o", out});
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.errors, HasSubstr(kGgufTokenizer));
  EXPECT_EQ(read_file(out + "/" + kGgufTokenizer), "mine");
}

TEST_F(LanguageFiles, StandBesideNetworksThatTheUserNames) {
  const std::vector<LanguageFile> files = language_files(model(), read_network(model()));
  ASSERT_EQ(files.size(), 1U);
  const fs::path folder = path("saved");
  write_language_files(files, folder, false);
  write_language_files(files, folder, false);
  EXPECT_THAT(end_tokens(folder / "net.mz", find_tokenizer(folder / "net.mz")), ElementsAre(3, 5));
  const auto refused = [&] { return error_of([&] { write_language_files(files, folder, false); }); };
  write_file(folder / kGgufTokenizer, "mine");
  EXPECT_THAT(refused(), HasSubstr("tokenizer.gguf: it would be replaced by that of this network"));
  EXPECT_EQ(read_file(folder / kGgufTokenizer), "mine");
  write_language_files(files, folder, true);
  write_file(folder / "tokenizer.json", "{}");
  EXPECT_THAT(refused(), HasSubstr("tokenizer.json: it is the tokenizer of another network"));
  EXPECT_TRUE(language_files(path("gone.gguf"), read_network(model())).empty());
}

TEST_F(LanguageFiles, FoldersForResultsAreToldFromFiles) {
  const auto refused = [&](const std::string& output, const std::string& message) {
    const ProgramResult result =
        run_program({"quantize", model(), "--weights", "int8", "--activations", "float32", "-o", output});
    EXPECT_EQ(result.status, 2) << output;
    EXPECT_THAT(result.errors, HasSubstr(message));
  };
  refused(path("out.mz"), "expected a name that ends in .onnx, or a folder for the results");
  refused(model(), "or a folder for the results");
}

}  // namespace
}  // namespace detent
