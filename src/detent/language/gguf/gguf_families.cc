#include "detent/language/gguf/gguf_families.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "detent/core/convert.h"
#include "detent/core/error.h"
#include "detent/language/language_model.h"

namespace detent {
namespace {

std::vector<double> factors_of(const GgufFile& file, std::string_view name) {
  const GgufTensor* tensor = file.find(name);
  if (tensor == nullptr) return {};
  const Tensor values = to_float32(gguf_elements(*tensor));
  const auto span = values.values<float>();
  return {span.begin(), span.end()};
}

/// The words of llama.cpp's metadata in those of config.json.
Rotary read_gguf_rotary(const GgufConfigReader& reader, const LanguageConfig& config) {
  RotaryScaling scaling;
  scaling.theta = reader.number("rope.freq_base", scaling.theta);
  const GgufMetadata& metadata = reader.file().metadata;
  const std::string type(metadata.text(reader.key("rope.scaling.type"), "none"));
  scaling.type = type == "none" ? "default" : type;
  scaling.factor = reader.number("rope.scaling.factor", reader.number("rope.scale_linear", 1));
  if (!reader.has("rope.scaling.type") && scaling.factor != 1) scaling.type = "linear";
  scaling.original_context = reader.integer("rope.scaling.original_context_length", 0);
  const double attention_factor = reader.number("rope.scaling.attn_factor", 1);
  scaling.truncate = reader.architecture() != "gpt-oss";
  if (scaling.type == "yarn") {
    scaling.attention_factor = attention_factor * yarn_magnitude(scaling.factor);
    scaling.beta_fast = reader.number("rope.scaling.yarn_beta_fast", scaling.beta_fast);
    scaling.beta_slow = reader.number("rope.scaling.yarn_beta_slow", scaling.beta_slow);
  }
  scaling.short_factors = factors_of(reader.file(), "rope_factors_short.weight");
  scaling.long_factors = factors_of(reader.file(), "rope_factors_long.weight");
  if (!scaling.short_factors.empty()) {
    scaling.type = "longrope";
    scaling.attention_factor = attention_factor;
  }
  const int64_t size = reader.integer("rope.dimension_count", config.head_size);
  Rotary rotary;
  try {
    rotary = rotary_of(scaling, size, config.context);
  } catch (const Error& error) {
    fail("{}: {}", metadata.file(), error.what());
  }
  const std::vector<double> divisors = factors_of(reader.file(), "rope_freqs.weight");
  if (divisors.empty()) return rotary;
  if (divisors.size() != rotary.frequencies.size()) {
    fail("{}: rope_freqs.weight has {} numbers, expected {}", metadata.file(), divisors.size(),
         rotary.frequencies.size());
  }
  for (size_t i = 0; i < divisors.size(); ++i) rotary.frequencies[i] /= static_cast<float>(divisors[i]);
  return rotary;
}

void read_gguf_tokens(const GgufMetadata& metadata, LanguageConfig& config) {
  const auto id = [&](const char* key) {
    return metadata.contains(key) ? std::optional(metadata.integer(key)) : std::nullopt;
  };
  config.bos = id("tokenizer.ggml.bos_token_id");
  config.pad = id("tokenizer.ggml.padding_token_id");
  config.eos = gguf_end_tokens(metadata);
}

int64_t rows_of(const GgufConfigReader& reader, const char* name) {
  const GgufTensor* tensor = reader.file().find(name);
  if (tensor == nullptr) fail("{}: there is no tensor {}", reader.file().metadata.file(), name);
  return tensor->shape.empty() ? 0 : tensor->shape.front();
}

/// Sizes, biases by the tensors that are there, and whether the head is tied.
LanguageConfig common_gguf_config(const GgufConfigReader& reader, const char* family, const char* eps) {
  LanguageConfig config;
  config.family = family;
  config.layers = reader.integer("block_count");
  config.hidden = reader.integer("embedding_length");
  config.heads = reader.integer("attention.head_count");
  if (config.heads < 1) {
    fail("{}: {} is {}, expected at least 1", reader.file().metadata.file(),
         reader.key("attention.head_count"), config.heads);
  }
  config.kv_heads = reader.integer("attention.head_count_kv", config.heads);
  config.head_size = reader.integer("attention.key_length", config.hidden / config.heads);
  const bool is_latent = reader.has("attention.kv_lora_rank");
  if (!is_latent && reader.integer("attention.value_length", config.head_size) != config.head_size) {
    fail("{}: keys of {} elements a head and values of {}, expected as many", reader.file().metadata.file(),
         config.head_size, reader.integer("attention.value_length"));
  }
  config.intermediate = reader.integer("feed_forward_length");
  config.context = reader.integer("context_length");
  config.vocabulary = rows_of(reader, "token_embd.weight");
  config.norm_eps = reader.number(eps);
  config.qkv_bias = reader.has_tensor("blk.0.attn_q.bias") || reader.has_tensor("blk.0.attn_qkv.bias");
  config.output_bias = reader.has_tensor("blk.0.attn_output.bias");
  config.perceptron_bias = reader.has_tensor("blk.0.ffn_up.bias");
  config.head_bias = reader.has_tensor("output.bias");
  config.tied_head = !reader.has_tensor("output.weight");
  read_gguf_tokens(reader.file().metadata, config);
  check_language_config(config, reader.file().metadata.file());  // before anything is as large as it says
  return config;
}

constexpr const char* kRmsEps = "attention.layer_norm_rms_epsilon";
constexpr const char* kLayerNormEps = "attention.layer_norm_epsilon";

}  // namespace

/// Norms before, heads that turn, a gated perceptron.
LanguageConfig read_llama_like(const GgufConfigReader& reader, const char* family) {
  LanguageConfig config = common_gguf_config(reader, family, kRmsEps);
  config.window = reader.integer("attention.sliding_window", 0);
  config.rotary = config.window_rotary = read_gguf_rotary(reader, config);
  return config;
}

namespace {

LanguageConfig read_gguf_qwen3(const GgufConfigReader& reader) {
  LanguageConfig config = read_llama_like(reader, "qwen3");
  config.qk_norm = true;
  return config;
}

/// Which layers have a window: an array of booleans, or every so many layers one has none.
std::vector<bool> read_gguf_windows(const GgufConfigReader& reader, int64_t layers, int64_t usual) {
  constexpr const char* kPattern = "attention.sliding_window_pattern";
  const GgufEntry* entry = reader.file().metadata.find(reader.key(kPattern));
  if (entry != nullptr && entry->type == GgufType::kArray) {
    const std::vector<int64_t> flags = reader.file().metadata.integers(entry->key);
    return {flags.begin(), flags.end()};
  }
  const int64_t every = reader.integer(kPattern, usual);
  if (every < 1)
    fail("{}: {} is {}, expected at least 1", reader.file().metadata.file(), reader.key(kPattern), every);
  return all_but_each(layers, every);
}

/// The 1 that norms add stands in the weights of such files.
LanguageConfig read_gguf_gemma(const GgufConfigReader& reader, const char* family) {
  LanguageConfig config = common_gguf_config(reader, family, kRmsEps);
  config.activation = Activation::kGeluTanh;
  config.embedding_scale = static_cast<double>(std::sqrt(static_cast<float>(config.hidden)));
  config.rotary = config.window_rotary = read_gguf_rotary(reader, config);
  return config;
}

/// Scores are scaled by the size of a head, but for the largest model, whose scale llama.cpp tells by the
/// number of its layers too.
void read_gguf_gemma_windows(const GgufConfigReader& reader, LanguageConfig& config, int64_t largest,
                             int64_t pattern) {
  constexpr int64_t kMostLayers = 4096;
  config.norm_place = NormPlace::kAround;
  const int64_t scaled = config.layers == largest ? config.hidden / config.heads : config.head_size;
  config.attention_scale = 1 / std::sqrt(static_cast<double>(scaled));
  if (reader.has("attn_logit_softcapping")) config.score_cap = reader.number("attn_logit_softcapping");
  if (reader.has("final_logit_softcapping")) config.logit_cap = reader.number("final_logit_softcapping");
  if (config.window > 0)
    config.has_window = read_gguf_windows(reader, std::min(config.layers, kMostLayers), pattern);
}

LanguageConfig read_gguf_gemma2(const GgufConfigReader& reader) {
  constexpr int64_t kWindow = 4096;
  constexpr int64_t kLayersOfLargest = 46;
  LanguageConfig config = read_gguf_gemma(reader, "gemma2");
  config.window = reader.integer("attention.sliding_window", kWindow);
  read_gguf_gemma_windows(reader, config, kLayersOfLargest, 2);
  return config;
}

LanguageConfig read_gguf_gemma3(const GgufConfigReader& reader) {
  constexpr int64_t kLayersOfLargest = 62;
  constexpr int64_t kEvery = 6;
  constexpr double kLocalTheta = 1e4;
  LanguageConfig config = read_gguf_gemma(reader, "gemma3");
  config.qk_norm = true;
  config.window = reader.integer("attention.sliding_window", 0);
  read_gguf_gemma_windows(reader, config, kLayersOfLargest, kEvery);
  RotaryScaling of_windows;
  of_windows.theta = reader.number("rope.freq_base_swa", kLocalTheta);
  config.window_rotary = rotary_of(of_windows, config.head_size, config.context);
  return config;
}

}  // namespace

LanguageConfig read_gguf_granite(const GgufConfigReader& reader) {
  LanguageConfig config = read_llama_like(reader, "granite");
  config.attention_scale = reader.number("attention.scale", 0);
  config.embedding_scale = reader.number("embedding_scale", 1);
  config.residual_scale = reader.number("residual_scale", 1);
  config.logit_scale = 1 / reader.number("logit_scale", 1);
  return config;
}

namespace {

/// One layer in four does not turn; the format does not state it.
LanguageConfig read_gguf_smollm3(const GgufConfigReader& reader) {
  constexpr int64_t kEvery = 4;
  LanguageConfig config = read_llama_like(reader, "smollm3");
  config.turns = all_but_each(config.layers, kEvery);
  return config;
}

LanguageConfig read_gguf_olmo2(const GgufConfigReader& reader) {
  constexpr int64_t kEvery = 4;
  LanguageConfig config = read_llama_like(reader, "olmo2");
  config.norm_place = NormPlace::kAfterPart;
  config.qk_norm_of_all = true;
  if (config.window == 0) return config;
  config.has_window = read_gguf_windows(reader, config.layers, kEvery);
  RotaryScaling of_windows;
  of_windows.theta = reader.number("rope.freq_base", of_windows.theta);
  config.window_rotary = rotary_of(of_windows, config.head_size, config.context);
  return config;
}

}  // namespace

/// Layer norms before, heads that turn.
LanguageConfig read_centred(const GgufConfigReader& reader, const char* family) {
  LanguageConfig config = common_gguf_config(reader, family, kLayerNormEps);
  config.norm = NormKind::kLayerNorm;
  config.rotary = config.window_rotary = read_gguf_rotary(reader, config);
  return config;
}

namespace {

LanguageConfig read_gguf_stablelm(const GgufConfigReader& reader) {
  LanguageConfig config = read_centred(reader, "stablelm");
  if (!reader.has_tensor("blk.0.ffn_norm.weight")) config.perceptron_place = PerceptronPlace::kBesideOneNorm;
  config.qk_norm = config.qk_norm_by_head = reader.has_tensor("blk.0.attn_q_norm.weight");
  return config;
}

LanguageConfig read_gguf_starcoder2(const GgufConfigReader& reader) {
  LanguageConfig config = read_centred(reader, "starcoder2");
  config.perceptron = PerceptronKind::kPlain;
  config.activation = Activation::kGeluTanh;
  config.window = reader.integer("attention.sliding_window", 0);
  return config;
}

LanguageConfig read_gguf_phi2(const GgufConfigReader& reader) {
  LanguageConfig config = read_centred(reader, "phi");
  config.perceptron = PerceptronKind::kPlain;
  config.perceptron_place = PerceptronPlace::kBesideOneNorm;
  config.activation = Activation::kGeluTanh;
  return config;
}

LanguageConfig read_gguf_gptneox(const GgufConfigReader& reader) {
  LanguageConfig config = read_centred(reader, "gpt_neox");
  config.perceptron = PerceptronKind::kPlain;
  if (reader.flag("use_parallel_residual", true)) config.perceptron_place = PerceptronPlace::kBeside;
  config.activation = Activation::kGelu;
  return config;
}

}  // namespace

LanguageConfig read_gguf_gpt2(const GgufConfigReader& reader) {
  LanguageConfig config = common_gguf_config(reader, "gpt2", kLayerNormEps);
  config.norm = NormKind::kLayerNorm;
  config.perceptron = PerceptronKind::kPlain;
  config.activation = Activation::kGeluTanh;
  config.positions = config.context;
  return config;
}

namespace {

/// Rerankers and classifiers: as RoBERTa's head.
NetworkHead read_gguf_bert_head(const GgufConfigReader& reader) {
  if (!reader.has_tensor("cls.weight") && !reader.has_tensor("cls.output.weight")) return {};
  for (const char* name : {"cls.weight", "cls.bias", "cls.output.weight", "cls.output.bias"}) {
    if (!reader.has_tensor(name))
      fail("{}: there is no tensor {} of a head, which has a layer, tanh and a layer of labels",
           reader.file().metadata.file(), name);
  }
  return {.kind = HeadKind::kSequenceLabels,
          .layer = "classifier_layer",
          .activation = Activation::kTanh,
          .labels = rows_of(reader, "cls.output.weight")};
}

LanguageConfig read_gguf_bert(const GgufConfigReader& reader) {
  LanguageConfig config = common_gguf_config(reader, "bert", kLayerNormEps);
  if (reader.flag("attention.causal", false)) {
    fail("{}: {} is true, expected an encoder", reader.file().metadata.file(),
         reader.key("attention.causal"));
  }
  config.is_causal = false;
  config.norm = NormKind::kLayerNorm;
  config.norm_place = NormPlace::kAfter;
  config.final_norm = false;
  config.embedding_norm = true;
  config.perceptron = PerceptronKind::kPlain;
  config.activation = Activation::kGelu;
  config.tied_head = true;
  config.positions = rows_of(reader, "position_embd.weight");
  if (reader.has_tensor("token_types.weight")) config.token_types = rows_of(reader, "token_types.weight");
  config.head = read_gguf_bert_head(reader);
  return config;
}

}  // namespace

std::vector<StoredName> gguf_llama_names() {
  return {{"embed_tokens", "token_embd"},
          {"layers.{}.attention_norm", "blk.{}.attn_norm"},
          {"layers.{}.attention.query", "blk.{}.attn_q"},
          {"layers.{}.attention.key", "blk.{}.attn_k"},
          {"layers.{}.attention.value", "blk.{}.attn_v"},
          {"layers.{}.attention.output", "blk.{}.attn_output"},
          {"layers.{}.perceptron_norm", "blk.{}.ffn_norm"},
          {"layers.{}.perceptron.gate", "blk.{}.ffn_gate"},
          {"layers.{}.perceptron.up", "blk.{}.ffn_up"},
          {"layers.{}.perceptron.down", "blk.{}.ffn_down"},
          {"norm", "output_norm"},
          {"head", "output"}};
}

std::vector<StoredName> gguf_qwen3_names() {
  std::vector<StoredName> names = gguf_llama_names();
  names.push_back({"layers.{}.attention.query_norm", "blk.{}.attn_q_norm"});
  names.push_back({"layers.{}.attention.key_norm", "blk.{}.attn_k_norm"});
  return names;
}

namespace {

std::vector<StoredName> around_names() {
  std::vector<StoredName> names = gguf_llama_names();
  names.push_back({"layers.{}.attention_post_norm", "blk.{}.post_attention_norm"});
  names.push_back({"layers.{}.perceptron_post_norm", "blk.{}.post_ffw_norm"});
  return names;
}

/// Gemma 3 and OLMo 2.
std::vector<StoredName> around_normed_names() {
  std::vector<StoredName> names = around_names();
  names.push_back({"layers.{}.attention.query_norm", "blk.{}.attn_q_norm"});
  names.push_back({"layers.{}.attention.key_norm", "blk.{}.attn_k_norm"});
  return names;
}

}  // namespace

/// Queries, keys and values in one tensor.
std::vector<StoredName> joined_names(std::vector<StoredName> names) {
  for (StoredName& name : names) {
    if (name.name == "layers.{}.attention.query") name.part = WeightPart::kQuery;
    if (name.name == "layers.{}.attention.key") name.part = WeightPart::kKey;
    if (name.name == "layers.{}.attention.value") name.part = WeightPart::kValue;
    if (name.part != WeightPart::kWhole) name.stored = "blk.{}.attn_qkv";
  }
  return names;
}

std::vector<StoredName> gguf_phi3_names() {
  std::vector<StoredName> names = joined_names(gguf_llama_names());
  for (StoredName& name : names) {
    if (name.name == "layers.{}.perceptron.gate") name = {name.name, "blk.{}.ffn_up", WeightPart::kGate};
    if (name.name == "layers.{}.perceptron.up") name = {name.name, "blk.{}.ffn_up", WeightPart::kUp};
  }
  return names;
}

std::vector<StoredName> gguf_gpt2_names() {
  std::vector<StoredName> names = joined_names(gguf_llama_names());
  names.push_back({"embed_positions", "position_embd"});
  return names;
}

namespace {

/// Files before 2024 have queries, keys and values in one tensor.
std::vector<StoredName> phi2_names() {
  std::vector<StoredName> names = gguf_llama_names();
  for (const StoredName& name : joined_names(gguf_llama_names())) {
    if (name.part != WeightPart::kWhole) names.push_back(name);
  }
  return names;
}

std::vector<StoredName> gguf_bert_names() {
  std::vector<StoredName> names = gguf_llama_names();
  for (StoredName& name : names) {
    if (name.name == "layers.{}.attention_norm") name.stored = "blk.{}.attn_output_norm";
    if (name.name == "layers.{}.perceptron_norm") name.stored = "blk.{}.layer_output_norm";
  }
  names.push_back({"embed_positions", "position_embd"});
  names.push_back({"embed_types", "token_types"});
  names.push_back({"embed_norm", "token_embd_norm"});
  names.push_back({"classifier_layer", "cls"});
  names.push_back({"classifier", "cls.output"});
  return names;
}

const std::array<GgufFamily, 37> kGgufFamilies = {{
    {"llama", "llama", read_gguf_llama, gguf_expert_names, true},
    {"qwen2", "qwen2", [](const GgufConfigReader& r) { return read_llama_like(r, "qwen2"); },
     gguf_llama_names},
    {"qwen3", "qwen3", read_gguf_qwen3, gguf_qwen3_names},
    {"gemma", "gemma", [](const GgufConfigReader& r) { return read_gguf_gemma(r, "gemma"); },
     gguf_llama_names},
    {"gemma2", "gemma2", read_gguf_gemma2, around_names},
    {"gemma3", "gemma3", read_gguf_gemma3, around_normed_names},
    {"phi2", "phi", read_gguf_phi2, phi2_names},
    {"phi3", "phi3", [](const GgufConfigReader& r) { return read_llama_like(r, "phi3"); }, gguf_phi3_names},
    {"gpt2", "gpt2", read_gguf_gpt2, gguf_gpt2_names},
    {"gptneox", "gpt_neox", read_gguf_gptneox, gguf_gpt2_names},
    {"bert", "bert", read_gguf_bert, gguf_bert_names},
    {"granite", "granite", read_gguf_granite, gguf_llama_names, true},
    {"smollm3", "smollm3", read_gguf_smollm3, gguf_llama_names, true},
    {"olmo2", "olmo2", read_gguf_olmo2, around_normed_names},
    {"stablelm", "stablelm", read_gguf_stablelm, gguf_qwen3_names},
    {"starcoder2", "starcoder2", read_gguf_starcoder2, gguf_llama_names},
    {"qwen2moe", "qwen2_moe", read_gguf_qwen2_moe, gguf_expert_names},
    {"qwen3moe", "qwen3_moe", read_gguf_qwen3_moe, gguf_normed_expert_names},
    {"olmoe", "olmoe", read_gguf_olmoe, gguf_normed_expert_names},
    {"granitemoe", "granitemoe", read_gguf_granite_moe, gguf_expert_names, true},
    {"falcon", "falcon", read_gguf_falcon, gguf_falcon_names},
    {"mpt", "mpt", read_gguf_mpt, gguf_gpt2_names},
    {"bloom", "bloom", read_gguf_bloom, gguf_bloom_names},
    {"starcoder", "gpt_bigcode", read_gguf_starcoder, gguf_gpt2_names},
    {"gpt-oss", "gpt_oss", read_gguf_gpt_oss, gguf_gpt_oss_names},
    {"olmo", "olmo", read_gguf_olmo, gguf_llama_names, true},
    {"nemotron", "nemotron", read_gguf_nemotron, gguf_llama_names},
    {"arcee", "arcee", read_gguf_arcee, gguf_llama_names, true},
    {"ernie4_5", "ernie4_5", read_gguf_ernie, gguf_llama_names},
    {"seed_oss", "seed_oss", [](const GgufConfigReader& r) { return read_llama_like(r, "seed_oss"); },
     [] { return gguf_post_normed_names(gguf_llama_names()); }},
    {"command-r", "cohere", read_gguf_command_r, gguf_qwen3_names},
    {"cohere2", "cohere", read_gguf_cohere2, gguf_qwen3_names},
    {"exaone4", "exaone4", read_gguf_exaone4, around_normed_names},
    {"lfm2", "lfm2", read_gguf_lfm2, gguf_lfm2_names},
    {"deepseek2", "deepseek_v2", read_gguf_deepseek2, gguf_latent_names},
    {"minicpm3", "minicpm3", read_gguf_minicpm3, gguf_latent_names},
    {"modern-bert", "modernbert", read_gguf_modern_bert, gguf_modern_bert_names},
}};

}  // namespace

GgufConfigReader::GgufConfigReader(const GgufFile& file)
    : file_(file), architecture_(file.metadata.text("general.architecture")) {}

int64_t GgufConfigReader::integer(std::string_view end) const {
  const std::string name = key(end);
  const GgufEntry* entry = file_.metadata.find(name);
  if (entry == nullptr || entry->type != GgufType::kArray) return file_.metadata.integer(name);
  std::vector<int64_t> values = file_.metadata.integers(name);
  if (has("shortconv.l_cache")) std::erase(values, 0);  // of layers without attention
  if (values.empty() || std::ranges::count(values, values.front()) != std::ssize(values)) {
    fail("{}: {} differs from layer to layer, expected one number", file_.metadata.file(), name);
  }
  return values.front();
}

std::span<const GgufFamily> gguf_families() { return kGgufFamilies; }

const GgufFamily& find_gguf_family(const GgufFile& file) {
  const std::string architecture(file.metadata.text("general.architecture"));
  const auto found = std::ranges::find_if(
      kGgufFamilies, [&](const GgufFamily& family) { return architecture == family.architecture; });
  if (found != kGgufFamilies.end()) return *found;
  std::vector<std::string> known;
  for (const GgufFamily& family : kGgufFamilies) known.emplace_back(family.architecture);
  fail("{}: {}", file.metadata.file(), unknown_name_message("architecture", architecture, known));
}

}  // namespace detent
