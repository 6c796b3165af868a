#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "detent/checkpoints/gguf/gguf_for_test.h"
#include "detent/files/json.h"
#include "detent/files/safetensors.h"
#include "detent/files/temporary_file_test.h"
#include "detent/inference/integer_executor.h"
#include "detent/language/language_model.h"
#include "detent/language/networks_for_test.h"

namespace detent {
namespace {

constexpr int64_t kLatentLayers = 2;
constexpr int64_t kLatentHidden = 20;
constexpr int64_t kLatentHeads = 3;
constexpr int64_t kLatentRank = 9;
constexpr int64_t kLatentTurning = 4;
constexpr int64_t kLatentPlain = 5;
constexpr int64_t kLatentValues = 7;
constexpr int64_t kLatentInner = 12;
constexpr int64_t kLatentExperts = 4;
constexpr int64_t kLatentOfExpert = 6;
constexpr int64_t kLatentVocabulary = 61;

/// A tensor as a folder and a GGUF file call it.
struct NamedTwice {
  std::string folder;
  std::string gguf;
  Shape shape;
};

std::vector<NamedTwice> tensors_of_layer(int64_t layer, int64_t query_rank) {
  const std::string from = fmt::format("model.layers.{}.", layer);
  const std::string to = fmt::format("blk.{}.", layer);
  const int64_t queries = kLatentHeads * (kLatentPlain + kLatentTurning);
  std::vector<NamedTwice> tensors = {
      {"input_layernorm.weight", "attn_norm.weight", {kLatentHidden}},
      {"self_attn.kv_a_proj_with_mqa.weight",
       "attn_kv_a_mqa.weight",
       {kLatentRank + kLatentTurning, kLatentHidden}},
      {"self_attn.kv_a_layernorm.weight", "attn_kv_a_norm.weight", {kLatentRank}},
      {"self_attn.kv_b_proj.weight",
       "attn_kv_b.weight",
       {kLatentHeads * (kLatentPlain + kLatentValues), kLatentRank}},
      {"self_attn.o_proj.weight", "attn_output.weight", {kLatentHidden, kLatentHeads * kLatentValues}},
      {"post_attention_layernorm.weight", "ffn_norm.weight", {kLatentHidden}}};
  if (query_rank == 0) {
    tensors.push_back({"self_attn.q_proj.weight", "attn_q.weight", {queries, kLatentHidden}});
  } else {
    tensors.push_back({"self_attn.q_a_proj.weight", "attn_q_a.weight", {query_rank, kLatentHidden}});
    tensors.push_back({"self_attn.q_a_layernorm.weight", "attn_q_a_norm.weight", {query_rank}});
    tensors.push_back({"self_attn.q_b_proj.weight", "attn_q_b.weight", {queries, query_rank}});
  }
  for (const std::string part : {"gate", "up", "down"}) {
    const bool is_down = part == "down";
    const auto shape = [&](int64_t size) {
      return is_down ? Shape{kLatentHidden, size} : Shape{size, kLatentHidden};
    };
    if (layer == 0) {
      tensors.push_back({"mlp." + part + "_proj.weight", "ffn_" + part + ".weight", shape(kLatentInner)});
      continue;
    }
    tensors.push_back({"mlp.shared_experts." + part + "_proj.weight", "ffn_" + part + "_shexp.weight",
                       shape(kLatentOfExpert)});
    for (int64_t i = 0; i < kLatentExperts; ++i)
      tensors.push_back({fmt::format("mlp.experts.{}.{}_proj.weight", i, part),
                         "ffn_" + part + "_exps.weight", shape(kLatentOfExpert)});
  }
  if (layer > 0)
    tensors.push_back({"mlp.gate.weight", "ffn_gate_inp.weight", {kLatentExperts, kLatentHidden}});
  for (NamedTwice& tensor : tensors) {
    tensor.folder = from + tensor.folder;
    tensor.gguf = to + tensor.gguf;
  }
  return tensors;
}

std::vector<NamedTwice> all_tensors(int64_t query_rank, bool is_third, int64_t layers) {
  std::vector<NamedTwice> tensors = {
      {"model.embed_tokens.weight", "token_embd.weight", {kLatentVocabulary, kLatentHidden}},
      {"model.norm.weight", "output_norm.weight", {kLatentHidden}},
      {"lm_head.weight", "output.weight", {kLatentVocabulary, kLatentHidden}}};
  for (int64_t layer = 0; layer < layers; ++layer) {
    std::vector<NamedTwice> more = tensors_of_layer(layer, query_rank);
    tensors.insert(tensors.end(), more.begin(), more.end());
  }
  if (is_third)
    tensors.push_back(
        {"model.layers.1.mlp.gate.e_score_correction_bias", "blk.1.exp_probs_b.bias", {kLatentExperts}});
  return tensors;
}

/// The rows of one part of each head of kv_b, as files since 2025 have them.
Tensor part_of_heads(const Tensor& joined, int64_t begin, int64_t size, bool transposes) {
  const auto from = joined.values<float>();
  Tensor result(DType::kFloat32,
                {kLatentHeads, transposes ? kLatentRank : size, transposes ? size : kLatentRank});
  const std::span<float> to = result.values<float>();
  for (int64_t head = 0; head < kLatentHeads; ++head) {
    for (int64_t row = 0; row < size; ++row) {
      for (int64_t k = 0; k < kLatentRank; ++k) {
        const int64_t source = (head * (kLatentPlain + kLatentValues) + begin + row) * kLatentRank + k;
        const int64_t place =
            transposes ? (head * kLatentRank + k) * size + row : (head * size + row) * kLatentRank + k;
        to[static_cast<size_t>(place)] = from[static_cast<size_t>(source)];
      }
    }
  }
  return result;
}

void add_tensor(GgufBytes& bytes, const std::string& name, const Tensor& tensor) {
  const auto values = tensor.values<float>();
  bytes.floats(name, tensor.shape(), {values.begin(), values.end()});
}

struct LatentCase {
  int64_t query_rank;
  bool is_third;
  bool splits_heads;     // k_b and v_b in the place of kv_b
  bool is_mini = false;  // MiniCPM 3, which has no experts
  std::string key(const char* end) const {
    return fmt::format("{}.{}", is_mini ? "minicpm3" : "deepseek2", end);
  }
  int64_t layers() const { return is_mini ? 1 : kLatentLayers; }
};

void add_experts_and_scales(GgufBytes& bytes, const LatentCase& of) {
  bytes.integer(of.key("expert_count"), kLatentExperts).integer(of.key("expert_used_count"), 2);
  bytes.integer(of.key("expert_feed_forward_length"), kLatentOfExpert);
  bytes.integer(of.key("expert_shared_count"), 1);
  bytes.integer(of.key("expert_gating_func"), of.is_third ? 2 : 1);
  bytes.integer(of.key("expert_group_count"), 2);
  bytes.integer(of.key("expert_group_used_count"), of.is_third ? 2 : 1);
  bytes.real(of.key("expert_weights_scale"), 1.5F);
  bytes.entry(of.key("expert_weights_norm"), GgufType::kBool, std::string(1, of.is_third ? 1 : 0));
  bytes.text(of.key("rope.scaling.type"), "yarn").real(of.key("rope.scaling.factor"), 4);
  bytes.integer(of.key("rope.scaling.original_context_length"), 16);
  bytes.real(of.key("rope.scaling.yarn_log_multiplier"), 0.0625F);
}

GgufBytes latent_metadata(const LatentCase& of) {
  GgufBytes bytes;
  bytes.text("general.architecture", of.is_mini ? "minicpm3" : "deepseek2");
  const int64_t key_size = kLatentPlain + kLatentTurning;
  const std::pair<const char*, int64_t> sizes[] = {
      {"block_count", of.layers()},
      {"embedding_length", kLatentHidden},
      {"context_length", 64},
      {"feed_forward_length", kLatentInner},
      {"attention.head_count", kLatentHeads},
      {"attention.head_count_kv", of.splits_heads ? 1 : kLatentHeads},
      {"attention.kv_lora_rank", kLatentRank},
      {"attention.key_length", of.splits_heads ? kLatentRank + kLatentTurning : key_size},
      {"attention.value_length", of.splits_heads ? kLatentRank : kLatentValues},
      {"rope.dimension_count", kLatentTurning}};
  for (const auto& [key, size] : sizes) bytes.integer(of.key(key), static_cast<uint32_t>(size));
  if (of.splits_heads)
    bytes.integer(of.key("attention.key_length_mla"), static_cast<uint32_t>(key_size))
        .integer(of.key("attention.value_length_mla"), kLatentValues);
  if (of.query_rank > 0) bytes.integer(of.key("attention.q_lora_rank"), static_cast<uint32_t>(of.query_rank));
  bytes.real(of.key("attention.layer_norm_rms_epsilon"), 1e-6F);
  if (!of.is_mini) add_experts_and_scales(bytes, of);
  return bytes;
}

Value latent_json(const LatentCase& of) {
  Table json{{"model_type", of.is_mini    ? "minicpm3"
                            : of.is_third ? "deepseek_v3"
                                          : "deepseek_v2"},
             {"tie_word_embeddings", false},
             {"vocab_size", kLatentVocabulary},
             {"hidden_size", kLatentHidden},
             {"num_hidden_layers", of.layers()},
             {"num_attention_heads", kLatentHeads},
             {"intermediate_size", kLatentInner},
             {"max_position_embeddings", 64},
             {"rms_norm_eps", static_cast<double>(1e-6F)},
             {"kv_lora_rank", kLatentRank},
             {"qk_rope_head_dim", kLatentTurning},
             {"qk_nope_head_dim", kLatentPlain},
             {"v_head_dim", kLatentValues},
             {"n_routed_experts", kLatentExperts},
             {"num_experts_per_tok", 2},
             {"moe_intermediate_size", kLatentOfExpert},
             {"n_shared_experts", 1},
             {"routed_scaling_factor", 1.5},
             {"n_group", 2},
             {"topk_group", of.is_third ? 2 : 1},
             {"first_k_dense_replace", 1},
             {"topk_method", of.is_third ? "noaux_tc" : "group_limited_greedy"},
             {"rope_scaling", Table{{"type", "yarn"},
                                    {"factor", 4.0},
                                    {"original_max_position_embeddings", 16},
                                    {"mscale", 0.625},
                                    {"mscale_all_dim", 0.625}}}};
  if (of.query_rank > 0) json["q_lora_rank"] = of.query_rank;
  if (of.is_mini) json["rope_scaling"] = Value();
  return Value(json);
}

/// The folder and the file of one network.
void write_both(const LatentCase& of, const TemporaryPath& folder, const TemporaryPath& file) {
  std::filesystem::create_directories(folder.get());
  write_json(folder.get() / "config.json", latent_json(of));
  WeightsForTest weights;
  std::vector<std::pair<std::string, Tensor>> stored;
  GgufBytes bytes = latent_metadata(of);
  std::map<std::string, std::vector<float>> experts;
  std::map<std::string, Shape> shapes;
  for (const NamedTwice& named : all_tensors(of.query_rank, of.is_third, of.layers())) {
    const Tensor tensor = weights.of_stored(named.folder, named.shape);
    stored.emplace_back(named.folder, tensor);
    const auto values = tensor.values<float>();
    if (named.gguf.ends_with("_exps.weight")) {
      experts[named.gguf].insert(experts[named.gguf].end(), values.begin(), values.end());
      shapes[named.gguf] = {kLatentExperts, named.shape[0], named.shape[1]};
    } else if (of.splits_heads && named.gguf.ends_with("attn_kv_b.weight")) {
      const std::string layer = named.gguf.substr(0, 6);
      add_tensor(bytes, layer + "attn_k_b.weight", part_of_heads(tensor, 0, kLatentPlain, true));
      add_tensor(bytes, layer + "attn_v_b.weight", part_of_heads(tensor, kLatentPlain, kLatentValues, false));
    } else {
      add_tensor(bytes, named.gguf, tensor);
    }
  }
  for (const auto& [name, values] : experts) bytes.floats(name, shapes.at(name), values);
  write_safetensors(folder.get() / "model.safetensors", stored);
  file.overwrite(bytes.bytes());
}

TEST(GgufOfLatentAttention, IsTheNetworkOfItsFolder) {
  for (const LatentCase& of : {LatentCase{0, false, false}, LatentCase{11, true, false},
                               LatentCase{11, true, true}, LatentCase{11, false, false, true}}) {
    const TemporaryPath folder("latent");
    const TemporaryPath file("latent.gguf");
    write_both(of, folder, file);
    const std::vector<Tensor> inputs = {Tensor::from<int64_t>({1, 6}, {5, 7, 12, 60, 3, 9}),
                                        Tensor::from<int64_t>({1, 6}, {1, 1, 1, 1, 1, 1})};
    const Tensor expected = IntegerProgram(read_language_folder(folder.get())).run(inputs).front();
    const Tensor given = IntegerProgram(read_language_gguf(file.get())).run(inputs).front();
    EXPECT_TRUE(std::ranges::equal(expected.bytes(), given.bytes()))
        << of.query_rank << of.is_third << of.splits_heads << of.is_mini;
  }
}

}  // namespace
}  // namespace detent
