#include "detent/language/language_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <map>

#include "detent/checkpoints/torch_checkpoint.h"
#include "detent/core/convert.h"
#include "detent/core/error.h"
#include "detent/files/file.h"
#include "detent/files/json.h"
#include "detent/files/safetensors.h"
#include "detent/files/temporary_file_test.h"
#include "detent/inference/integer_executor.h"
#include "detent/language/decoder.h"
#include "detent/language/families/families.h"
#include "detent/language/networks_for_test.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

using Tensors = std::vector<std::pair<std::string, Tensor>>;

Table llama_json() {
  return {{"model_type", "llama"},
          {"vocab_size", 61},
          {"hidden_size", 24},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 6},
          {"num_key_value_heads", 2},
          {"head_dim", 8},
          {"intermediate_size", 40},
          {"max_position_embeddings", 512},
          {"rms_norm_eps", 1e-6},
          {"tie_word_embeddings", false},
          {"rope_theta", 10000.0},
          {"rope_scaling", Value()},
          {"eos_token_id", 2}};
}

/// The tensors of small_config() as a Llama's are called.
Tensors llama_tensors() {
  static const std::map<std::string, std::string> kNames = {
      {"attention.query", "self_attn.q_proj"}, {"attention.key", "self_attn.k_proj"},
      {"attention.value", "self_attn.v_proj"}, {"attention.output", "self_attn.o_proj"},
      {"attention_norm", "input_layernorm"},   {"perceptron_norm", "post_attention_layernorm"},
      {"perceptron.gate", "mlp.gate_proj"},    {"perceptron.up", "mlp.up_proj"},
      {"perceptron.down", "mlp.down_proj"},    {"head", "lm_head"}};
  WeightsForTest weights;
  Tensors tensors;
  for (const NamedShape& weight : expected_weights(small_config())) {
    std::string name = weight.name;
    for (const auto& [ours, theirs] : kNames) {
      const size_t at = name.find(ours + ".weight");
      const bool is_part = at != std::string::npos && (at == 0 || name[at - 1] == '.');
      if (is_part) name.replace(at, ours.size(), theirs);
    }
    if (name != "lm_head.weight") name.insert(0, "model.");
    tensors.emplace_back(name, weights.tensor(weight.name, weight.shape));
  }
  return tensors;
}

class LanguageFolder : public testing::Test {
 protected:
  LanguageFolder() { fs::create_directories(folder_); }

  void write_config(const Table& json) { write_json(folder_ / "config.json", Value(json)); }
  void write(const Table& json, const Tensors& tensors) {
    write_config(json);
    write_safetensors(folder_ / "model.safetensors", tensors);
  }
  /// Every other tensor in each of two shards.
  void write_shards(const Tensors& tensors, Table map) {
    Tensors shards[2];
    for (size_t i = 0; i < tensors.size(); ++i) {
      shards[i % 2].push_back(tensors[i]);
      if (!map.contains(tensors[i].first))
        map[tensors[i].first] = i % 2 == 0 ? "a.safetensors" : "b.safetensors";
    }
    write_safetensors(folder_ / "a.safetensors", shards[0]);
    write_safetensors(folder_ / "b.safetensors", shards[1]);
    write_json(folder_ / "model.safetensors.index.json", Value(Table{{"weight_map", std::move(map)}}));
  }

  Tensor logits() const { return logits_of(read_language_folder(folder_)); }
  static Tensor logits_of(const Graph& graph) {
    const Tensor tokens = Tensor::from<int64_t>({1, 5}, std::vector<int64_t>{5, 7, 1, 60, 3});
    const Tensor mask = Tensor::from<int64_t>({1, 5}, std::vector<int64_t>(5, 1));
    return IntegerProgram(graph).run(std::vector<Tensor>{tokens, mask}).front();
  }
  static Tensor expected() {
    WeightsForTest weights;
    return logits_of(build_language_graph(small_config(), weights));
  }

  void expect_refused(const std::string& message) const {
    try {
      read_language_folder(folder_);
      ADD_FAILURE() << "read it, expected: " << message;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
    }
  }

  TemporaryPath temporary_{"language_folder"};
  fs::path folder_ = temporary_.get();
};

TEST_F(LanguageFolder, IsReadFromOneFileOrShards) {
  write(llama_json(), llama_tensors());
  EXPECT_TRUE(is_language_folder(folder_));
  EXPECT_TRUE(logits().equals(expected()));
  EXPECT_EQ(summarize_language_folder(folder_).size(), llama_tensors().size());
  fs::remove(folder_ / "model.safetensors");
  write_shards(llama_tensors(), {});
  EXPECT_TRUE(logits().equals(expected()));
}

/// Folders of before safetensors.
TEST_F(LanguageFolder, IsReadFromFilesOfPyTorchWhereThereAreNoOthers) {
  write_config(llama_json());
  const Tensors tensors = llama_tensors();
  write_state_dict(folder_ / "pytorch_model.bin", tensors);
  EXPECT_TRUE(logits().equals(expected()));
  EXPECT_EQ(summarize_language_folder(folder_).size(), tensors.size());
  EXPECT_EQ(read_folder_model(folder_).config.layers, small_config().layers);
  fs::remove(folder_ / "pytorch_model.bin");
  const auto half = tensors.begin() + std::ssize(tensors) / 2;
  write_state_dict(folder_ / "a.bin", Tensors(tensors.begin(), half));
  write_state_dict(folder_ / "b.bin", Tensors(half, tensors.end()));
  Table map;
  for (const auto& [name, tensor] : Tensors(tensors.begin(), half)) map[name] = "a.bin";
  for (const auto& [name, tensor] : Tensors(half, tensors.end())) map[name] = "b.bin";
  write_json(folder_ / "pytorch_model.bin.index.json", Value(Table{{"weight_map", map}}));
  EXPECT_TRUE(logits().equals(expected()));
  map[tensors.front().first] = "b.bin";
  write_json(folder_ / "pytorch_model.bin.index.json", Value(Table{{"weight_map", map}}));
  expect_refused("is not in the shard b.bin");
  write(llama_json(), tensors);  // counts before files of PyTorch
  EXPECT_TRUE(logits().equals(expected()));
}

TEST_F(LanguageFolder, HasTheLayerOfSentenceTransformersInAFolderOfItsOwn) {
  write(llama_json(), llama_tensors());
  const auto module = [](const char* type, const char* path) {
    return Value(Table{{"type", std::string("sentence_transformers.models.") + type}, {"path", path}});
  };
  write_json(folder_ / "modules.json", Value(List{module("Transformer", ""), module("Pooling", "1_Pooling"),
                                                  module("Dense", "2_Dense")}));
  fs::create_directories(folder_ / "1_Pooling");
  fs::create_directories(folder_ / "2_Dense");
  write_json(folder_ / "1_Pooling" / "config.json", Value(Table{{"pooling_mode_lasttoken", true}}));
  write_json(folder_ / "2_Dense" / "config.json",
             Value(Table{{"in_features", small_config().hidden}, {"out_features", 2}}));
  const Shape shape = {2, small_config().hidden};
  Tensor weight(DType::kFloat32, shape);
  weight.values<float>()[3] = 0.5F;
  write_state_dict(folder_ / "2_Dense" / "pytorch_model.bin",
                   {{"linear.weight", weight}, {"linear.bias", Tensor::from<float>({2}, {0, 1})}});
  const std::vector<Tensor> results = IntegerProgram(read_language_folder(folder_))
                                          .run(std::vector<Tensor>{Tensor::from<int64_t>({1, 2}, {5, 7}),
                                                                   Tensor::from<int64_t>({1, 2}, {1, 1})});
  ASSERT_EQ(results[1].shape(), (Shape{1, 2}));
  const float state = results[0].values<float>()[static_cast<size_t>(small_config().hidden) + 3];
  EXPECT_NEAR(results[1].values<float>()[0], std::tanh(0.5F * state), 1e-6F);
  EXPECT_NEAR(results[1].values<float>()[1], std::tanh(1.0F), 1e-6F);
}

TEST_F(LanguageFolder, MayLackThePrefixOfNamesAndHaveWhatNobodyNeeds) {
  Tensors tensors = llama_tensors();
  for (auto& [name, tensor] : tensors) {
    if (name.starts_with("model.")) name = name.substr(6);
  }
  tensors.emplace_back("layers.0.self_attn.rotary_emb.inv_freq", Tensor(DType::kFloat32, {4}));
  write(llama_json(), tensors);
  EXPECT_TRUE(logits().equals(expected()));
}

TEST_F(LanguageFolder, MayCallWeightsOfNormsAsTensorFlowDoes) {
  Tensors tensors = llama_tensors();
  for (auto& [name, tensor] : tensors) {
    if (name.ends_with("norm.weight")) name.replace(name.size() - 6, 6, "gamma");
  }
  write(llama_json(), tensors);
  EXPECT_TRUE(logits().equals(expected()));
}

TEST_F(LanguageFolder, HasTensorsOfNarrowerFloats) {
  Tensors narrow = llama_tensors();
  Tensors widened = llama_tensors();
  for (size_t i = 0; i < narrow.size(); ++i) {
    narrow[i].second = to_dtype(narrow[i].second, i % 2 == 0 ? DType::kBFloat16 : DType::kFloat16);
    widened[i].second = to_float32(narrow[i].second);
  }
  write(llama_json(), widened);
  const Tensor of_float32 = logits();
  write(llama_json(), narrow);
  EXPECT_TRUE(logits().equals(of_float32));
}

TEST_F(LanguageFolder, KeepsTheHeadApartOnlyWhereItIsNotTied) {
  Table json = llama_json();
  json["tie_word_embeddings"] = true;
  write(json, llama_tensors());  // the head that is stored besides counts for nothing
  const Graph graph = read_language_folder(folder_);
  EXPECT_TRUE(
      graph.node("head").parameters.front().second.is(graph.node("embed_tokens").parameters.front().second));
}

TEST_F(LanguageFolder, ListsTensorsThatAreMissingWrongOrTooMany) {
  Tensors tensors = llama_tensors();
  tensors[1].first = "model.layers.0.other.weight";
  tensors.back().second = Tensor(DType::kFloat32, {61, 25});
  write(llama_json(), tensors);
  expect_refused(
      "tensors are missing: model.layers.0.input_layernorm.weight; lm_head.weight has shape [61, 25], "
      "expected "
      "[61, 24]; the network has no place for model.layers.0.other.weight");
  Table gpt2 = {{"model_type", "gpt2"}, {"vocab_size", 61}, {"n_embd", 24}, {"n_layer", 2}, {"n_head", 6}};
  write_config(gpt2);
  expect_refused(
      "transformer.h.0.attn.c_attn.weight, transformer.h.0.attn.c_attn.bias, "
      "transformer.h.0.attn.c_proj.weight");
  expect_refused("its names are those of the family \"llama\", its config says \"gpt2\"");
}

TEST_F(LanguageFolder, RefusesIndicesThatLie) {
  write_config(llama_json());
  const auto refused = [&](const char* tensor, const char* shard, const std::string& message) {
    write_shards(llama_tensors(), {{tensor, shard}});
    expect_refused(message);
  };
  refused(
      "model.norm.weight", "../a.safetensors",
      "the shard of model.norm.weight is \"../a.safetensors\", expected a name of a file in the same folder");
  refused("model.norm.weight", "/etc/passwd", "expected a name of a file");
  refused("model.norm.weight", "..", "expected a name of a file");
  refused("model.norm.weight", "c.safetensors", "the shard c.safetensors is missing");
  refused("model.other", "a.safetensors", "model.other is not in the shard a.safetensors");
}

TEST_F(LanguageFolder, RefusesDamagedWeights) {
  write_config(llama_json());
  expect_refused("there is neither model.safetensors nor model.safetensors.index.json");
  Table deep = llama_json();
  deep["num_hidden_layers"] = 4000;
  write(deep, llama_tensors());
  expect_refused("21 tensors, for a network of 4000 layers");
  write_config(llama_json());
  Tensors tensors = llama_tensors();
  tensors[3].second = tensors[3].second.clone();
  tensors[3].second.values<float>()[5] = std::numeric_limits<float>::quiet_NaN();
  write(llama_json(), tensors);
  expect_refused(tensors[3].first + " has infinities or NaN");
  tensors[3].second = Tensor(DType::kInt32, tensors[3].second.shape());
  write(llama_json(), tensors);
  expect_refused(tensors[3].first + " is int32, expected floats");
  write(llama_json(), llama_tensors());
  fs::resize_file(folder_ / "model.safetensors", fs::file_size(folder_ / "model.safetensors") - 100);
  expect_refused("model.safetensors");
}

TEST_F(LanguageFolder, RefusesConfigsThatNoNetworkHas) {
  const auto refused = [&](const char* key, const Value& value, const std::string& message) {
    Table json = llama_json();
    json[key] = value;
    write(json, {});
    expect_refused(message);
  };
  refused("model_type", "lama", "unknown model_type \"lama\": did you mean \"llama\"?");
  refused("model_type", Value(), "there is no key \"model_type\"");
  refused("vocab_size", Value(), "there is no key \"vocab_size\"");
  refused("vocab_size", 1.5, "\"vocab_size\" is 1.5 (a float), expected an integer");
  refused("num_hidden_layers", int64_t{1} << 40,
          "\"num_hidden_layers\" is 1099511627776: expected 1 to 4096");
  refused("hidden_size", int64_t{1} << 62, "the hidden size is 4611686018427387904, expected 1 to");
  refused("num_attention_heads", 0, "\"num_attention_heads\" is 0: expected at least 1");
  refused("num_key_value_heads", 4, "6 heads of queries for 4 of keys");
  refused("head_dim", 7, "7 elements of a head turn, expected an even number");
  refused("hidden_act", "quick_gelu", "unknown activation \"quick_gelu\"");
  refused("rope_scaling", Table{{"type", "dynamical"}, {"factor", 2.0}}, "unknown rope_type \"dynamical\"");
  refused("rope_scaling", Table{{"type", "linear"}}, "there is no key \"factor\"");
  refused("rope_scaling", 3, "\"rope_scaling\" is 3 (an integer), expected a table");
  refused("quantization_config", Table{{"bits", 4}}, "\"quantization_config\" is");
  write_file(folder_ / "config.json", "[1]");
  expect_refused("got a list, expected a table");
}

TEST_F(LanguageFolder, SaysWhichTokensEndATextAsGenerationConfigDoes) {
  write_config(llama_json());
  EXPECT_EQ(read_folder_config(folder_).eos, std::vector<int64_t>{2});
  write_file(folder_ / "generation_config.json", R"({"eos_token_id": [5, 6]})");
  EXPECT_EQ(read_folder_config(folder_).eos, (std::vector<int64_t>{5, 6}));
}

TEST_F(LanguageFolder, IsDecodedOutOfItsFiles) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    Tensors tensors = llama_tensors();
    for (auto& [name, tensor] : tensors) tensor = to_dtype(tensor, dtype);
    write(llama_json(), tensors);
    LanguageModel model = read_folder_model(folder_);
    EXPECT_EQ(model.config.eos, std::vector<int64_t>{2});
    const Decoder decoder(std::move(model.graph), std::move(model.weights));
    const std::vector<int64_t> tokens = {5, 7, 1, 60, 3};
    SequenceCache cache = decoder.start();
    const Tensor got = decoder.run(cache, tokens, WantedLogits::kOfAllTokens);
    EXPECT_TRUE(got.equals(logits().reshaped(got.shape())));
  }
}

TEST(LanguageConfigs, AreTheSameOfTransformersFourAndFive) {
  Table four = llama_json();
  four["rope_theta"] = 5e5;
  four["rope_scaling"] = Table{{"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 128}};
  four["torch_dtype"] = "bfloat16";
  Table five = llama_json();
  five.erase("rope_theta");
  five.erase("rope_scaling");
  five["rope_parameters"] = Table{
      {"rope_type", "yarn"}, {"rope_theta", 5e5}, {"factor", 4.0}, {"original_max_position_embeddings", 128}};
  five["dtype"] = "bfloat16";
  const LanguageConfig old = read_language_config(Value(four), "four");
  EXPECT_EQ(old.rotary, read_language_config(Value(five), "five").rotary);
  EXPECT_NEAR(old.rotary.factor, 0.1 * std::log(4.0) + 1, 1e-12);
}

TEST(LanguageFamilies, HaveNamesForEveryWeightOfTheirNetworks) {
  for (const LanguageFamily& family : all_language_families()) {
    EXPECT_EQ(&find_language_family(family.name), &family);
    for (const std::string& type : family.model_types) EXPECT_EQ(family_of_model_type(type), &family);
    const std::vector<StoredName> names = family.weights();
    EXPECT_GE(names.size(), 10U) << family.name;
    for (const StoredName& name : names) {
      const bool has_layer = name.stored.find("{}") != std::string::npos;
      const bool is_of_all_layers = name.stored.find("albert_layers") != std::string::npos;
      EXPECT_EQ(name.name.find("{}") != std::string::npos, has_layer || is_of_all_layers) << name.name;
    }
  }
  EXPECT_THROW(find_language_family("lama"), Error);
  EXPECT_EQ(family_of_model_type("mamba"), nullptr);
}

/// Numbers of Peng et al.'s and Llama 3.1's rules at pairs whose share is known.
TEST(RotaryFrequencies, AreStretchedWhereWavesAreLong) {
  const Rotary plain = rotary_of({}, 8, 512);
  EXPECT_EQ(plain.frequencies, (std::vector<float>{1, 0.1F, 0.01F, 0.001F}));
  const Rotary linear = rotary_of({.type = "linear", .factor = 4}, 8, 512);
  EXPECT_FLOAT_EQ(linear.frequencies[1], 0.025F);
  const RotaryScaling llama3 = {.type = "llama3",
                                .factor = 8,
                                .low_frequency_factor = 1,
                                .high_frequency_factor = 4,
                                .original_context = 128};
  const Rotary stretched = rotary_of(llama3, 8, 1024);
  EXPECT_FLOAT_EQ(stretched.frequencies[0], 1);          // 6.3 tokens, below 128 / 4
  EXPECT_FLOAT_EQ(stretched.frequencies[2], 0.01F / 8);  // 628 tokens, above 128
  const float share = (128 / 62.831853F - 1) / 3;        // 62.8 tokens, between
  EXPECT_NEAR(stretched.frequencies[1], (1 - share) * 0.1F / 8 + share * 0.1F, 1e-7);
  EXPECT_THROW(rotary_of({.type = "linear", .factor = 0}, 8, 512), Error);
  EXPECT_THROW(rotary_of({.type = "longrope", .short_factors = {1}, .long_factors = {1}}, 8, 512), Error);
}

}  // namespace
}  // namespace detent
