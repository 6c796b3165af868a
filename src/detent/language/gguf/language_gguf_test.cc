#include "detent/language/language_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <random>
#include <set>

#include "detent/checkpoints/gguf/gguf_for_test.h"
#include "detent/core/error_of_for_test.h"
#include "detent/files/temporary_file_test.h"
#include "detent/inference/integer_executor.h"
#include "detent/language/decoder.h"
#include "detent/language/gguf/gguf_families.h"
#include "detent/language/networks_for_test.h"

namespace detent {
namespace {

using testing::HasSubstr;

using Names = std::map<std::string, std::string>;

/// llama.cpp's names, as its converters write them.
const Names kNames = {{"embed_tokens", "token_embd"},
                      {"embed_positions", "position_embd"},
                      {"embed_types", "token_types"},
                      {"embed_norm", "token_embd_norm"},
                      {"attention.query", "attn_q"},
                      {"attention.key", "attn_k"},
                      {"attention.value", "attn_v"},
                      {"attention.output", "attn_output"},
                      {"attention.query_norm", "attn_q_norm"},
                      {"attention.key_norm", "attn_k_norm"},
                      {"attention_norm", "attn_norm"},
                      {"attention.sink", "attn_sinks"},
                      {"attention_post_norm", "post_attention_norm"},
                      {"experts.router", "ffn_gate_inp"},
                      {"experts.shared_router", "ffn_gate_inp_shexp"},
                      {"experts.shared.gate", "ffn_gate_shexp"},
                      {"experts.shared.up", "ffn_up_shexp"},
                      {"experts.shared.down", "ffn_down_shexp"},
                      {"experts.gate", "ffn_gate_exps"},
                      {"experts.up", "ffn_up_exps"},
                      {"experts.down", "ffn_down_exps"},
                      {"perceptron.gate", "ffn_gate"},
                      {"perceptron.up", "ffn_up"},
                      {"perceptron.down", "ffn_down"},
                      {"perceptron_norm", "ffn_norm"},
                      {"perceptron_post_norm", "post_ffw_norm"},
                      {"convolution.input", "shortconv.in_proj"},
                      {"convolution.taps", "shortconv.conv"},
                      {"convolution.output", "shortconv.out_proj"},
                      {"classifier_layer", "cls"},
                      {"classifier", "cls.output"},
                      {"norm", "output_norm"},
                      {"head", "output"}};

/// A file of one architecture and what it says.
struct Case {
  std::string architecture;
  LanguageConfig config;
  Names other_names = {};
  bool pairs_rows = false;
};

std::string stored_name(const Case& of, const std::string& name) {
  const size_t point = name.rfind('.');
  std::string layer;
  std::string role = name.substr(0, point);
  if (role.starts_with("layers.")) {
    const size_t after = role.find('.', 7);
    layer = "blk." + role.substr(7, after - 7) + ".";
    role = role.substr(after + 1);
    std::erase_if(role, [](char c) { return c >= '0' && c <= '9'; });
    if (const size_t gap = role.find(".."); gap != std::string::npos) role.erase(gap, 1);
  }
  const auto other = of.other_names.find(role);
  return layer + (other != of.other_names.end() ? other->second : kNames.at(role)) + name.substr(point);
}

/// Rows i and i + half of each head one after the other.
Tensor paired_rows(const Tensor& rows, int64_t head_size) {
  Tensor result(DType::kFloat32, rows.shape());
  const int64_t width = rows.numel() / rows.dim(0);
  const int64_t half = head_size / 2;
  for (int64_t head = 0; head < rows.dim(0) / head_size; ++head) {
    for (int64_t i = 0; i < half; ++i) {
      for (int64_t side = 0; side < 2; ++side) {
        const float* from = rows.values<float>().data() + (head * head_size + side * half + i) * width;
        std::copy_n(from, width, result.values<float>().data() + (head * head_size + 2 * i + side) * width);
      }
    }
  }
  return result;
}

/// Blocks of a format whose first bytes are a scale or two in half precision.
std::string random_blocks(const GgufFormat& format, const Shape& shape, std::mt19937& engine) {
  std::string bytes;
  for (int64_t i = 0; i < element_count(shape) / format.elements; ++i) {
    std::string block;
    for (uint32_t k = 0; k < format.bytes; ++k) block += static_cast<char>(engine());
    const uint16_t scale = 0x2000 + engine() % 0x400;  // 2^-7 to 2^-6
    const uint16_t minimum = 0xA800 + engine() % 0x400;
    block.replace(0, 2, GgufBytes::number_bytes(scale));
    if (format.bytes % 4 == 0) block.replace(2, 2, GgufBytes::number_bytes(minimum));
    bytes += block;
  }
  return bytes;
}

/// The network's keys of a file.
GgufBytes metadata_of(const Case& of) {
  const LanguageConfig& config = of.config;
  const std::string& a = of.architecture;
  const auto size = [](int64_t value) { return static_cast<uint32_t>(value); };
  GgufBytes bytes;
  bytes.text("general.architecture", a).integer(a + ".block_count", size(config.layers));
  bytes.integer(a + ".embedding_length", size(config.hidden))
      .integer(a + ".context_length", size(config.context));
  bytes.integer(a + ".feed_forward_length", size(config.intermediate));
  bytes.integer(a + ".attention.head_count", size(config.heads));
  std::string heads_of_layers;
  for (int64_t layer = 0; layer < config.layers; ++layer)
    heads_of_layers += GgufBytes::number_bytes(config.layer_convolves(layer) ? 0 : size(config.kv_heads));
  if (config.short_convolution.width == 0) {
    bytes.integer(a + ".attention.head_count_kv", size(config.kv_heads));
  } else {
    bytes.integer(a + ".shortconv.l_cache", size(config.short_convolution.width));
    bytes.entry(
        a + ".attention.head_count_kv", GgufType::kArray,
        GgufBytes::array_bytes(GgufType::kUInt32, static_cast<uint64_t>(config.layers), heads_of_layers));
  }
  bytes.integer(a + ".attention.key_length", size(config.head_size));
  const bool is_layer_norm = config.norm == NormKind::kLayerNorm;
  bytes.real(a + (is_layer_norm ? ".attention.layer_norm_epsilon" : ".attention.layer_norm_rms_epsilon"),
             1e-5F);
  const int64_t window = config.is_causal ? config.window : 2 * config.window;
  if (window > 0) bytes.integer(a + ".attention.sliding_window", size(window));
  const int64_t turning = 2 * std::ssize(config.rotary.frequencies);
  if (turning > 0 && turning != config.head_size) bytes.integer(a + ".rope.dimension_count", size(turning));
  const Experts& experts = config.experts;
  if (experts.count > 0) {
    bytes.integer(a + ".expert_count", size(experts.count));
    bytes.integer(a + ".expert_used_count", size(experts.used));
    bytes.integer(a + ".expert_feed_forward_length", size(experts.intermediate));
    bytes.integer(a + ".expert_shared_feed_forward_length", size(experts.shared));
  }
  if (config.distance_slopes > 0)
    bytes.real(a + ".attention.max_alibi_bias", static_cast<float>(config.distance_slopes));
  if (config.qkv_limit) bytes.real(a + ".attention.clamp_kqv", static_cast<float>(*config.qkv_limit));
  if (config.score_cap) bytes.real(a + ".attn_logit_softcapping", static_cast<float>(*config.score_cap));
  if (config.family == "cohere") {
    bytes.real(a + ".logit_scale", static_cast<float>(config.logit_scale));
  } else if (config.logit_scale != 1) {
    bytes.real(a + ".logit_scale", static_cast<float>(1 / config.logit_scale));
    bytes.real(a + ".residual_scale", static_cast<float>(config.residual_scale));
    bytes.real(a + ".embedding_scale", static_cast<float>(config.embedding_scale));
    bytes.real(a + ".attention.scale", static_cast<float>(config.attention_scale));
  }
  bytes.integer("tokenizer.ggml.bos_token_id", 1).integer("tokenizer.ggml.eos_token_id", 2);
  return bytes;
}

struct StoredFloats {
  std::vector<float> values;
  Shape shape = {0};
};

/// By name; what the file joins lies one after the other.
std::map<std::string, StoredFloats> tensors_of(const Case& of) {
  WeightsForTest weights;
  std::map<std::string, StoredFloats> tensors;
  for (const NamedShape& weight : expected_weights(of.config)) {
    const std::string name = stored_name(of, weight.name);
    Tensor tensor = weights.tensor(weight.name, weight.shape);
    const bool turns = name.find("attn_q.") != std::string::npos || name.find("attn_k.") != std::string::npos;
    const bool is_norm =
        name.find("attn_q_norm.") != std::string::npos || name.find("attn_k_norm.") != std::string::npos;
    if (of.config.turns_neighbours && is_norm)
      tensor = paired_rows(tensor.reshaped({tensor.numel()}), of.config.head_size).reshaped(tensor.shape());
    if ((of.pairs_rows || of.config.turns_neighbours) && turns)
      tensor = paired_rows(tensor, of.config.head_size);
    auto& [values, shape] = tensors[name];
    const auto more = std::as_const(tensor).values<float>();
    values.insert(values.end(), more.begin(), more.end());
    const int64_t rows = shape[0] + weight.shape[0];
    shape = weight.shape;
    shape[0] = rows;
  }
  return tensors;
}

/// With matrices of that format, if there is one.
GgufBytes file_of(const Case& of, const GgufFormat* matrices = nullptr) {
  GgufBytes bytes = metadata_of(of);
  const int64_t experts = of.config.experts.count;
  std::mt19937 engine(1);
  for (const auto& [name, tensor] : tensors_of(of)) {
    Shape shape = tensor.shape;
    if (name.find("_exps.") != std::string::npos) {
      shape.insert(shape.begin(), experts);
      shape[1] /= experts;
    }
    if (name.find("_inp_shexp.") != std::string::npos) shape = {shape[1]};
    const bool are_taps = name.find("shortconv.conv.weight") != std::string::npos;
    if (are_taps) shape.erase(shape.begin() + 1);
    if (matrices != nullptr && shape.size() == 2 && !are_taps) {
      bytes.tensor(name, matrices->id, shape, random_blocks(*matrices, shape, engine));
    } else {
      bytes.floats(name, shape, tensor.values);
    }
  }
  return bytes;
}

std::vector<Tensor> results_of(const Graph& graph) {
  const Tensor tokens = Tensor::from<int64_t>({1, 7}, std::vector<int64_t>{5, 7, 1, 60, 3, 9, 4});
  std::vector<Tensor> inputs = {tokens, Tensor::from<int64_t>({1, 7}, std::vector<int64_t>(7, 1))};
  if (graph.input_names().size() == 3) inputs.emplace_back(DType::kInt64, Shape{1, 7});
  return IntegerProgram(graph).run(inputs);
}

GgufFile written(const GgufBytes& bytes, const TemporaryPath& path) {
  path.overwrite(bytes.bytes());
  return read_gguf(path.get());
}

LanguageConfig llama_config(const std::string& family) {
  LanguageConfig config = small_config();
  config.family = family;
  config.norm_eps = static_cast<double>(1e-5F);
  return config;
}

LanguageConfig gemma3_config() {
  LanguageConfig config = llama_config("gemma3");
  config.layers = 7;
  config.norm_place = NormPlace::kAround;
  config.activation = Activation::kGeluTanh;
  config.qk_norm = true;
  config.tied_head = true;
  config.attention_scale = 1 / std::sqrt(8.0);
  config.embedding_scale = static_cast<double>(std::sqrt(24.0F));
  config.window = 3;
  config.has_window = {true, true, true, true, true, false, true};
  return config;
}

LanguageConfig gpt2_config() {
  LanguageConfig config = llama_config("gpt2");
  config.kv_heads = config.heads = 3;
  config.norm = NormKind::kLayerNorm;
  config.perceptron = PerceptronKind::kPlain;
  config.activation = Activation::kGeluTanh;
  config.qkv_bias = config.output_bias = config.perceptron_bias = true;
  config.positions = config.context;
  config.rotary = config.window_rotary = {};
  config.tied_head = true;
  return config;
}

LanguageConfig bert_config() {
  LanguageConfig config = gpt2_config();
  config.family = "bert";
  config.is_causal = false;
  config.norm_place = NormPlace::kAfter;
  config.final_norm = false;
  config.embedding_norm = true;
  config.activation = Activation::kGelu;
  config.token_types = 2;
  return config;
}

/// Heads that turn by half, layer norms and a plain perceptron with biases.
LanguageConfig centred_config(const std::string& family) {
  LanguageConfig config = llama_config(family);
  config.norm = NormKind::kLayerNorm;
  config.perceptron = PerceptronKind::kPlain;
  config.activation = Activation::kGeluTanh;
  config.qkv_bias = config.output_bias = config.perceptron_bias = true;
  config.rotary = config.window_rotary = rotary_of({}, 4, config.context);
  return config;
}

std::vector<Case> cases_of_experts() {
  Case mixtral{"llama", llama_config("mixtral"), {}, true};
  mixtral.config.experts = {.count = 4, .used = 2, .intermediate = 40};
  Case qwen2{"qwen2moe", llama_config("qwen2_moe")};
  qwen2.config.qkv_bias = true;
  qwen2.config.experts = {
      .count = 4, .used = 2, .intermediate = 12, .normalized = false, .shared = 16, .shared_gate = true};
  Case qwen3{"qwen3moe", llama_config("qwen3_moe")};
  qwen3.config.qk_norm = true;
  qwen3.config.experts = {.count = 4, .used = 3, .intermediate = 12, .layers = {false, true}};
  Case olmoe{"olmoe", llama_config("olmoe")};
  olmoe.config.qk_norm_of_all = true;
  olmoe.config.experts = {.count = 4, .used = 2, .intermediate = 40, .normalized = false};
  Case granite{"granitemoe", llama_config("granitemoe"), {}, true};
  granite.config.logit_scale = 0.25;
  granite.config.residual_scale = 0.5;
  granite.config.embedding_scale = 3;
  granite.config.attention_scale = 0.125;
  granite.config.experts = {.count = 4, .used = 2, .intermediate = 40};
  return {mixtral, qwen2, qwen3, olmoe, granite};
}

/// Positions in scores or a table, and windows of an encoder.
std::vector<Case> cases_with_layer_norms() {
  const Names joined = {
      {"attention.query", "attn_qkv"}, {"attention.key", "attn_qkv"}, {"attention.value", "attn_qkv"}};
  Case mpt{"mpt", gpt2_config(), joined};
  mpt.config.family = "mpt";
  mpt.config.activation = Activation::kGelu;
  mpt.config.qkv_bias = mpt.config.output_bias = mpt.config.perceptron_bias = false;
  mpt.config.norm_bias = false;
  mpt.config.positions = 0;
  mpt.config.distance_slopes = 6;
  mpt.config.qkv_limit = 0.5;
  Case bloom{"bloom", gpt2_config(), joined};
  bloom.config.family = "bloom";
  bloom.config.positions = 0;
  bloom.config.distance_slopes = 8;
  bloom.config.embedding_norm = true;
  Case starcoder{"starcoder", gpt2_config(), joined};
  starcoder.config.family = "gpt_bigcode";
  starcoder.config.kv_heads = 1;
  Case falcon{"falcon", centred_config("falcon"), joined};
  falcon.config.rotary = falcon.config.window_rotary = rotary_of({}, 8, falcon.config.context);
  falcon.config.kv_heads = 1;
  falcon.config.activation = Activation::kGelu;
  falcon.config.qkv_bias = falcon.config.output_bias = falcon.config.perceptron_bias = false;
  falcon.config.perceptron_place = PerceptronPlace::kBesideOneNorm;
  Case larger = falcon;
  larger.config.kv_heads = 2;
  larger.config.perceptron_place = PerceptronPlace::kBeside;
  larger.other_names["attention_norm"] = "attn_norm_2";
  larger.other_names["perceptron_norm"] = "attn_norm";
  Case modernbert{"modern-bert", larger.config, joined};
  modernbert.config.family = "modernbert";
  modernbert.config.layers = 4;
  modernbert.config.kv_heads = modernbert.config.heads;
  modernbert.config.is_causal = false;
  modernbert.config.tied_head = true;
  modernbert.config.norm_bias = false;
  modernbert.config.first_norm = false;
  modernbert.config.embedding_norm = true;
  modernbert.config.perceptron = PerceptronKind::kGated;
  modernbert.config.perceptron_place = PerceptronPlace::kAfter;
  modernbert.config.window = 2;
  modernbert.config.has_window = {false, true, true, false};
  modernbert.other_names["perceptron.gate"] = "ffn_up";
  return {mpt, bloom, starcoder, falcon, larger, modernbert};
}

/// Architectures beside those of all_cases.
std::vector<Case> further_cases() {
  Case gemma{"gemma", gemma3_config()};
  gemma.config.family = "gemma";
  gemma.config.norm_place = NormPlace::kBefore;
  gemma.config.qk_norm = false;
  gemma.config.attention_scale = 0;
  gemma.config.window = 0;
  gemma.config.has_window = {};
  Case gemma2{"gemma2", gemma3_config()};
  gemma2.config.family = "gemma2";
  gemma2.config.qk_norm = false;
  gemma2.config.score_cap = 2;
  gemma2.config.has_window = {true, false, true, false, true, false, true};
  Case granite{"granite", llama_config("granite"), {}, true};
  granite.config.logit_scale = 0.25;
  granite.config.residual_scale = 0.5;
  granite.config.embedding_scale = 3;
  granite.config.attention_scale = 0.125;
  Case smollm3{"smollm3", llama_config("smollm3"), {}, true};
  smollm3.config.layers = 5;
  smollm3.config.turns = {true, true, true, false, true};
  Case olmo2{"olmo2", llama_config("olmo2")};
  olmo2.config.norm_place = NormPlace::kAfterPart;
  olmo2.config.qk_norm_of_all = true;
  Case stablelm{"stablelm", centred_config("stablelm")};
  stablelm.config.perceptron = PerceptronKind::kGated;
  stablelm.config.activation = Activation::kSilu;
  stablelm.config.output_bias = stablelm.config.perceptron_bias = false;
  Case starcoder2{"starcoder2", centred_config("starcoder2")};
  starcoder2.config.window = 3;
  Case phi2{"phi2", centred_config("phi")};
  phi2.config.head_bias = true;
  phi2.config.perceptron_place = PerceptronPlace::kBesideOneNorm;
  Case gptneox{"gptneox", centred_config("gpt_neox")};
  gptneox.config.perceptron_place = PerceptronPlace::kBeside;
  gptneox.config.activation = Activation::kGelu;
  gptneox.other_names = {
      {"attention.query", "attn_qkv"}, {"attention.key", "attn_qkv"}, {"attention.value", "attn_qkv"}};
  return {gemma, gemma2, granite, smollm3, olmo2, stablelm, starcoder2, phi2, gptneox};
}

std::vector<Case> all_cases() {
  Case qwen2{"qwen2", llama_config("qwen2")};
  qwen2.config.qkv_bias = true;
  qwen2.config.tied_head = true;
  Case qwen3{"qwen3", llama_config("qwen3")};
  qwen3.config.qk_norm = true;
  const Names joined = {
      {"attention.query", "attn_qkv"}, {"attention.key", "attn_qkv"}, {"attention.value", "attn_qkv"}};
  Case phi3{"phi3", llama_config("phi3"), joined};
  phi3.other_names["perceptron.gate"] = "ffn_up";
  Case bert{"bert", bert_config()};
  bert.other_names = {{"attention_norm", "attn_output_norm"}, {"perceptron_norm", "layer_output_norm"}};
  Case reranker = bert;
  reranker.config.head = {.kind = HeadKind::kSequenceLabels,
                          .layer = "classifier_layer",
                          .activation = Activation::kTanh,
                          .labels = 3};
  return {{"llama", llama_config("llama"), {}, true},
          reranker,
          qwen2,
          qwen3,
          {"gemma3", gemma3_config()},
          phi3,
          {"gpt2", gpt2_config(), joined},
          bert};
}

std::vector<Case> recent_cases() {
  Case oss{"gpt-oss", llama_config("gpt_oss"), {{"perceptron_norm", "post_attention_norm"}}};
  oss.config.qkv_bias = oss.config.output_bias = oss.config.sinks = true;
  oss.config.window = 3;
  oss.config.has_window = {true, false};
  oss.config.experts = {
      .count = 4, .used = 2, .intermediate = 40, .has_biases = true, .gate = {.slope = 1.702, .limit = 7}};
  Case olmo{"olmo", llama_config("olmo"), {}, true};
  olmo.config.norm = NormKind::kLayerNorm;
  olmo.config.norm_weight = olmo.config.norm_bias = false;
  olmo.config.qkv_limit = 0.5;
  Case nemotron{"nemotron", centred_config("nemotron")};
  nemotron.config.activation = Activation::kSquaredRelu;
  Case arcee{"arcee", llama_config("arcee"), {}, true};
  arcee.config.perceptron = PerceptronKind::kPlain;
  arcee.config.activation = Activation::kSquaredRelu;
  Case ernie{"ernie4_5", llama_config("ernie4_5")};
  ernie.config.turns_neighbours = true;
  Case seed{"seed_oss", llama_config("seed_oss"), {{"perceptron_norm", "post_attention_norm"}}};
  seed.config.qkv_bias = true;
  Case command{"command-r", llama_config("cohere")};
  command.config.norm = NormKind::kLayerNorm;
  command.config.norm_bias = false;
  command.config.perceptron_place = PerceptronPlace::kBesideOneNorm;
  command.config.logit_scale = 0.25;
  command.config.turns_neighbours = command.config.tied_head = true;
  Case command2 = command;
  command2.architecture = "cohere2";
  command2.config.layers = 5;
  command2.config.window = 3;
  command2.config.has_window = command2.config.turns = {true, true, true, false, true};
  command.config.qk_norm = command.config.qk_norm_by_head = true;
  Case exaone{"exaone4", llama_config("exaone4")};
  exaone.config.norm_place = NormPlace::kAfterPart;
  exaone.config.qk_norm = true;
  exaone.config.layers = 5;
  exaone.config.window = 3;
  exaone.config.has_window = exaone.config.turns = command2.config.turns;
  Case phi{"phi2", centred_config("phi")};
  phi.other_names = {
      {"attention.query", "attn_qkv"}, {"attention.key", "attn_qkv"}, {"attention.value", "attn_qkv"}};
  phi.config.perceptron_place = PerceptronPlace::kBesideOneNorm;
  phi.config.head_bias = true;
  Case lfm2{"lfm2", llama_config("lfm2"), {{"norm", "token_embd_norm"}}};
  lfm2.config.short_convolution = {.width = 3, .bias = false, .layers = {true, false}};
  lfm2.config.qk_norm = true;
  return {oss, olmo, nemotron, arcee, ernie, seed, command, command2, exaone, phi, lfm2};
}

/// Each architecture gives the network of its configuration and weights, to the last bit.
TEST(LanguageGguf, HasTheNetworksOfAllArchitectures) {
  std::vector<Case> cases = all_cases();
  for (const auto& more : {further_cases(), cases_of_experts(), cases_with_layer_norms(), recent_cases()})
    std::ranges::copy(more, std::back_inserter(cases));
  std::set<std::string> architectures;
  for (const Case& of : cases) architectures.insert(of.architecture);
  constexpr size_t kOthers = 2;  // gguf_latent_test.cc
  EXPECT_EQ(architectures.size() + kOthers, gguf_families().size());
  for (const Case& of : cases) {
    const TemporaryPath path(of.architecture + ".gguf");
    const GgufFile file = written(file_of(of), path);
    const LanguageConfig config = read_gguf_config(file);
    EXPECT_EQ(config.family, of.config.family);
    EXPECT_EQ(config.bos, 1);
    EXPECT_EQ(config.eos, std::vector<int64_t>{2});
    EXPECT_EQ(config.has_window, of.config.has_window) << of.architecture;
    WeightsForTest weights;
    const std::vector<Tensor> wanted = results_of(build_language_graph(of.config, weights));
    const std::vector<Tensor> got = results_of(read_language_gguf(path.get()));
    ASSERT_EQ(got.size(), wanted.size());
    EXPECT_TRUE(got.front().equals(wanted.front())) << of.architecture;
  }
}

Case llama() { return all_cases().front(); }

/// A decoder that packs blocks gives the logits of one whose weights are what the blocks stand for.
TEST(LanguageGguf, IsDecodedOutOfPackedBlocks) {
  Case of = llama();
  of.config.hidden = 64;
  of.config.intermediate = 96;
  of.config.heads = 4;
  of.config.head_size = 16;
  of.config.rotary = of.config.window_rotary = rotary_of({}, 16, of.config.context);
  const std::vector<int64_t> tokens = tokens_for_test(20, of.config.vocabulary);
  for (const bool tied : {false, true}) {
    of.config.tied_head = tied;
    for (const auto& [name, bits] : std::map<std::string, double>{
             {"Q4_0", 4 + 1}, {"Q4_1", 4 + 2}, {"Q5_1", 8 + 2}, {"Q8_0", 8 + 1}, {"F32", 32}}) {
      const auto formats = gguf_formats();
      const auto format =
          std::ranges::find(formats, name, [](const GgufFormat& f) { return std::string(f.name); });
      const TemporaryPath path("packed.gguf");
      path.overwrite(file_of(of, name == "F32" ? nullptr : &*format).bytes());
      const Decoder plain(read_language_gguf(path.get()));
      LanguageModel model = read_gguf_model(path.get());
      EXPECT_EQ(model.config.eos, std::vector<int64_t>{2});
      const Decoder packed(std::move(model.graph), model.weights);
      for (const auto wanted : {WantedLogits::kOfAllTokens, WantedLogits::kOfLastToken}) {
        SequenceCache expected = plain.start();
        SequenceCache got = packed.start();
        EXPECT_TRUE(packed.run(got, tokens, wanted).equals(plain.run(expected, tokens, wanted)))
            << name << tied;
      }
      EXPECT_LT(static_cast<double>(packed.weight_bytes()),
                static_cast<double>(plain.weight_bytes()) * (bits + 0.5) / 32)
          << name << tied;
      EXPECT_LT(packed.memory({}).weights, plain.memory({}).weights);
    }
  }
}

TEST(LanguageGguf, StretchesFrequencies) {
  const auto frequencies = [](const GgufBytes& bytes) {
    const TemporaryPath path("rotary.gguf");
    return read_gguf_config(written(bytes, path)).rotary.frequencies;
  };
  const std::vector<float> plain = frequencies(file_of(llama()));
  ASSERT_EQ(plain.size(), 4U);
  const std::vector<float> divided =
      frequencies(file_of(llama()).floats("rope_freqs.weight", {4}, {1, 2, 4, 8}));
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(divided[i], plain[i] / static_cast<float>(1 << i));
  const std::vector<float> linear = frequencies(
      file_of(llama()).text("llama.rope.scaling.type", "linear").real("llama.rope.scaling.factor", 4));
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(linear[i], plain[i] / 4);
  EXPECT_EQ(frequencies(file_of(llama()).real("llama.rope.freq_base", 500))[1],
            rotary_of({.theta = 500}, 8, 512).frequencies[1]);
  const auto yarn = [&](const Case& of) {
    return frequencies(file_of(of)
                           .text(of.architecture + ".rope.scaling.type", "yarn")
                           .real(of.architecture + ".rope.scaling.factor", 4)
                           .integer(of.architecture + ".rope.scaling.original_context_length", 128));
  };
  RotaryScaling scaling{.type = "yarn", .factor = 4, .original_context = 128};
  EXPECT_EQ(yarn(llama()), rotary_of(scaling, 8, 512).frequencies);
  scaling.truncate = false;
  EXPECT_NE(yarn(llama()), rotary_of(scaling, 8, 512).frequencies);
  EXPECT_EQ(yarn(recent_cases().front()), rotary_of(scaling, 8, 512).frequencies);
}

TEST(LanguageGguf, RefusesWhatIsNoNetworkOfItsOwn) {
  const auto refusal = [](const GgufBytes& bytes) {
    const TemporaryPath path("refused.gguf");
    path.overwrite(bytes.bytes());
    return error_of([&] { read_language_gguf(path.get()); });
  };
  EXPECT_THAT(refusal(GgufBytes()), HasSubstr("the metadata lack general.architecture"));
  EXPECT_THAT(refusal(GgufBytes().text("general.architecture", "lama")),
              HasSubstr("did you mean \"llama\"?"));
  EXPECT_THAT(refusal(GgufBytes().text("general.architecture", "llama")),
              HasSubstr("the metadata lack llama.block_count"));
  EXPECT_THAT(refusal(file_of(llama()).integer("split.count", 2)),
              HasSubstr("is one of 2 files of a network"));
  EXPECT_THAT(refusal(file_of(llama()).floats("blk.0.attn_sinks.weight", {1}, {0})),
              HasSubstr("no place for blk.0.attn_sinks.weight"));
  EXPECT_THAT(refusal(file_of(llama()).floats("rope_freqs.weight", {3}, {1, 1, 1})),
              HasSubstr("has 3 numbers, expected 4"));
  EXPECT_THAT(refusal(file_of(llama()).integer("llama.rope.dimension_count", 4)),
              HasSubstr("4 of 8 elements of a head turn"));
  EXPECT_THAT(refusal(file_of(llama()).integer("llama.attention.value_length", 4)), HasSubstr("values of 4"));
  Case wrong = llama();
  wrong.other_names["head"] = "token_embd_norm";
  EXPECT_THAT(refusal(file_of(wrong)), HasSubstr("no place for token_embd_norm.weight"));
}

TEST(LanguageGguf, RefusesHalfAHead) {
  Case bert{"bert", bert_config()};
  bert.other_names = {{"attention_norm", "attn_output_norm"}, {"perceptron_norm", "layer_output_norm"}};
  GgufBytes bytes = file_of(bert);
  bytes.floats("cls.weight", {1, bert.config.hidden},
               std::vector<float>(static_cast<size_t>(bert.config.hidden)));
  const TemporaryPath path("head.gguf");
  path.overwrite(bytes.bytes());
  EXPECT_THAT(error_of([&] { read_language_gguf(path.get()); }), HasSubstr("no tensor cls.bias of a head"));
}

/// 2^40 of anything is refused before memory is asked for.
TEST(LanguageGguf, RefusesSizesThatNobodyHas) {
  for (const char* key : {"block_count", "embedding_length", "feed_forward_length", "attention.head_count",
                          "attention.head_count_kv", "attention.key_length", "context_length"}) {
    GgufBytes bytes;
    for (const char* other :
         {"block_count", "embedding_length", "feed_forward_length", "attention.head_count",
          "attention.head_count_kv", "attention.key_length", "context_length"}) {
      const uint64_t value = std::string(other) == key ? uint64_t{1} << 40 : 2;
      bytes.entry(std::string("gemma3.") + other, GgufType::kUInt64, GgufBytes::number_bytes(value));
    }
    bytes.text("general.architecture", "gemma3").real("gemma3.attention.layer_norm_rms_epsilon", 1e-6F);
    bytes.integer("gemma3.attention.sliding_window", 4).floats("token_embd.weight", {2, 2}, {1, 2, 3, 4});
    const TemporaryPath path("sizes.gguf");
    path.overwrite(bytes.bytes());
    EXPECT_NE(error_of([&] { read_language_gguf(path.get()); }), "") << key;
  }
}

}  // namespace
}  // namespace detent
