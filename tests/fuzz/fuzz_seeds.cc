// Small good files for the fuzz targets to begin with, a folder a target:
//   fuzz_seeds FOLDER
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>

#include "detent/checkpoints/gguf/gguf_for_test.h"
#include "detent/checkpoints/gguf/gguf_format.h"
#include "detent/checkpoints/torch_checkpoint.h"
#include "detent/datasets/image_for_test.h"
#include "detent/datasets/tar_for_test.h"
#include "detent/files/array_files.h"
#include "detent/files/file.h"
#include "detent/files/gzip_for_test.h"
#include "detent/files/json.h"
#include "detent/files/safetensors.h"
#include "detent/files/scratch.h"
#include "detent/formats/quant_spec.h"
#include "detent/graph_files/graph_file.h"
#include "detent/graph_files/packed_tensors.h"
#include "detent/models/model.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

class Seeds {
 public:
  explicit Seeds(fs::path folder) : folder_(std::move(folder)) {}

  fs::path path(const std::string& target) {
    fs::create_directories(folder_ / target);
    return folder_ / target / fmt::format("seed_{}", number_++);
  }
  void add(const std::string& target, const std::string& bytes) {
    std::ofstream(path(target), std::ios::binary) << bytes;
  }

 private:
  fs::path folder_;
  int number_ = 0;
};

Tensor small_tensor() { return Tensor::from<float>({2, 3}, std::vector<float>{-2, -0.5F, 0, 0.25F, 1, 3}); }

void add_tensors(Seeds& seeds, const fs::path& folder) {
  const Tensor tensor = small_tensor();
  write_npy(seeds.path("npy"), tensor);
  write_safetensors(seeds.path("safetensors"), std::vector{std::pair(std::string("w"), tensor)},
                    {{"key", "value"}});
  for (const char* target : {"checkpoint", "zip"})
    write_state_dict(seeds.path(target), StateDict{{"w", tensor}});
  for (const char* spec :
       {"fixed:width=5", "affine:width=4,granularity=channel", "mx:element=e4m3", "ternary"}) {
    const auto packed = parse_quant_spec_text(spec);
    write_packed_tensors(
        seeds.path("packed"), {{"w", DType::kFloat32, tensor.shape(), packed}}, {},
        [&](size_t) { return tensor; }, Scratch(folder));
  }
}

void add_graphs(Seeds& seeds) {
  Graph graph = build_model("toy", {1, 2, 2}, 2);
  write_graph(seeds.path("mz"), graph);
  graph.node("seq_blocks_0").quantization["weight"] = parse_quant_spec_text("affine:width=4,symmetric=true");
  graph.node("seq_blocks_2").quantization["data_in_0"] = parse_quant_spec_text("fixed:width=8,frac_width=4");
  write_graph(seeds.path("mz"), graph);
}

void add_texts(Seeds& seeds) {
  const fs::path data = fs::path(DETENT_SOURCE_DIR) / "tests/data";
  const std::string statistics = read_file(data / "stats_for_quantisation.toml");
  const std::string configuration = read_file(data / "published_toy_ternary_scaled.toml");
  seeds.add("toml", statistics);
  seeds.add("toml", configuration);
  seeds.add("statistics", std::string(1, '\0') + statistics);
  seeds.add("statistics", std::string(1, '\1') + statistics);
  seeds.add("language_config",
            R"({"model_type": "llama", "vocab_size": 61, "hidden_size": 24, "num_hidden_layers": 2,
                "num_attention_heads": 6, "num_key_value_heads": 2, "intermediate_size": 40,
                "max_position_embeddings": 512, "rope_theta": 10000.0, "eos_token_id": [2, 3],
                "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                                 "high_freq_factor": 4.0, "original_max_position_embeddings": 64}})");
  seeds.add(
      "language_config",
      R"({"model_type": "gemma3_text", "vocab_size": 61, "hidden_size": 24, "num_hidden_layers": 2, "head_dim": 8,
                "num_attention_heads": 6, "num_key_value_heads": 2, "intermediate_size": 40,
                "max_position_embeddings": 512, "layer_types": ["sliding_attention", "full_attention"],
                "rope_parameters": {"full_attention": {"rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0},
                                    "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}})");
  seeds.add("language_config",
            R"({"model_type": "gpt2", "vocab_size": 61, "n_embd": 24, "n_layer": 2, "n_head": 6})");
  seeds.add("json", R"({"a": [1, -2.5e3, null, true, "x\u00e9\n"], "b": {"c": "inf", "d": []}})");
  seeds.add("csv", "height,width\n1,2.5\n-3e2,0\n");
  seeds.add("gzip", gzip_for_test("some text"));
  seeds.add("gzip", gzip_for_test("one member") + gzip_for_test(" and another"));
  seeds.add("tar", tar_member("a.txt", "content") + tar_end());
  seeds.add("idx", std::string("\0\0\x08\x02\0\0\0\x02\0\0\0\x03", 12) + "abcdef");
  for (const char* text :
       {"affine:width=4,granularity=group,group_size=32", "int8", "fp8_e4m3fn", "mx:element=e2m1"})
    seeds.add("format_text", text);
}

/// Small ones of every kind, and the templates of chats that tests compare with Jinja.
void add_tokenizers(Seeds& seeds) {
  const fs::path data = fs::path(DETENT_SOURCE_DIR) / "tests/data/tokenizers";
  const Value tokenizers = read_json(data / "tokenizers.json");
  for (const Value& entry : *tokenizers.get_if<Table>()->find("tokenizers")->get_if<List>())
    seeds.add("tokenizer", json_text(*entry.get_if<Table>()->find("tokenizer"), JsonLayout::kOneLine));
  const Value templates = read_json(data / "chat_templates.json");
  for (const Value& entry : *templates.get_if<Table>()->find("templates")->get_if<List>())
    seeds.add("chat_template", *entry.get_if<Table>()->find("template")->get_if<std::string>());
}

/// A file a format, and one with metadata of a language model.
void add_gguf(Seeds& seeds) {
  for (const GgufFormat& format : gguf_formats()) {
    const std::string block(format.bytes, '\x35');
    seeds.add("gguf",
              GgufBytes().integer("n", 1).tensor("w", format.id, {1, format.elements}, block).bytes());
  }
  GgufBytes model;
  model.text("general.architecture", "llama")
      .integer("llama.block_count", 1)
      .real("llama.rope.freq_base", 10000);
  model.entry("tokenizer.ggml.tokens", GgufType::kArray, GgufBytes::texts_bytes({"<s>", "a", "b"}));
  seeds.add("gguf", model.floats("token_embd.weight", {3, 2}, {0, 1, 2, 3, 4, 5}).bytes());
}

void add_images(Seeds& seeds) {
  seeds.add("image", jpeg_bytes(9, 7, JCS_RGB, {10, 200, 30}));
  seeds.add("image", jpeg_bytes(3, 3, JCS_GRAYSCALE, {90}));
  seeds.add("image", png_bytes({.width = 2, .height = 1}, {{1, 2, 3, 4, 5, 6}}));
}

}  // namespace
}  // namespace detent

int main(int count, char** arguments) {
  if (count != 2) {
    std::fputs("usage: fuzz_seeds FOLDER\n", stderr);
    return 2;
  }
  std::filesystem::create_directories(arguments[1]);
  detent::Seeds seeds(arguments[1]);
  detent::add_tensors(seeds, arguments[1]);
  detent::add_graphs(seeds);
  detent::add_texts(seeds);
  detent::add_tokenizers(seeds);
  detent::add_gguf(seeds);
  detent::add_images(seeds);
  return 0;
}
