#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "detent/core/value.h"

namespace detent {

enum class NormKind { kLayerNorm, kRmsNorm };

/// Where a block has its norms: before attention and perceptron; after them, when what they took is added
/// again (BERT); before them and after them, before that is added (Gemma 3); or only there (OLMo 2).
enum class NormPlace { kBefore, kAfter, kAround, kAfterPart };

/// Input of the perceptron: the sum of attention's input and output; or attention's input through a norm of
/// its own (GPT-NeoX) or attention's (Phi), with both outputs added to it.
enum class PerceptronPlace { kAfter, kBeside, kBesideOneNorm };

/// down(act(up x)), or down(act(gate x) * up x).
enum class PerceptronKind { kPlain, kGated };

/// kXielu has parameters of each perceptron (Huang et al. 2024, arXiv:2411.13010).
enum class Activation { kRelu, kSquaredRelu, kGelu, kGeluTanh, kSilu, kXielu, kTanh };

/// Results from the last hidden state: itself, or of decoders logits of the vocabulary; logits of each
/// token's labels, of the sequence's, or of one label of each token; of tokens in the vocabulary, alone or
/// beside labels of the sequence; of each token as start and as end; or the last hidden state and a vector
/// that stands for the sequence.
enum class HeadKind {
  kNone,
  kTokenLabels,
  kSequenceLabels,
  kTokenScores,
  kMaskedTokens,
  kMaskedTokensAndLabels,
  kSpan,
  kEmbedding
};

/// Stands for a sequence: its first token, the last one other than padding, the last one of the mask, the
/// mean of those of the mask; or the mean of their logits.
enum class TokenPooling { kFirst, kLast, kLastSeen, kMean, kMeanOfLogits };

/// Start of positions: all tokens from 0; tokens of the attention mask (OPT), from `position_offset`; or
/// tokens other than padding, from after it (RoBERTa).
enum class PositionCount { kAll, kAttended, kUnpadded };

/// By what angle pairs of elements of queries and keys turn at each position (Su et al. 2021,
/// arXiv:2104.09864): position * frequencies[i] for elements i and
/// i + size of each head, of which 2 * size turn; those after them stay.
struct Rotary {
  /// One per pair, in float32. Empty: no rotation.
  std::vector<float> frequencies = {};
  /// Instead of those, where a sequence has more than `long_from` tokens; empty: no others.
  std::vector<float> long_frequencies = {};
  int64_t long_from = 0;
  /// Where a sequence has more tokens than `grows_from`, frequencies shrink with its length ("dynamic"): that
  /// of pair i is (theta g^(2 size / (2 size - 2)))^(-i / size), g = growth * length / grows_from - (growth -
  /// 1). 0: never.
  double growth = 0;
  int64_t grows_from = 0;
  double theta = 0;  // of those that shrink
  /// Factor of cosines and sines.
  double factor = 1;

  bool operator==(const Rotary&) const = default;
};

/// How frequencies are stretched for longer sequences than those that a network was trained with, in the
/// words of Hugging Face's `rope_parameters`.
struct RotaryScaling {
  std::string type = "default";  // default, linear, dynamic, llama3, yarn, longrope
  double theta = 10000;
  double factor = 1;
  double low_frequency_factor = 1;              // llama3
  double high_frequency_factor = 4;             // llama3
  int64_t original_context = 0;                 // llama3, yarn, longrope; 0: that of the network
  std::optional<double> attention_factor = {};  // yarn, longrope
  double beta_fast = 32;                        // yarn
  double beta_slow = 1;                         // yarn
  std::optional<double> mscale = {};            // yarn
  std::optional<double> mscale_all_dim = {};
  bool truncate = true;                    // yarn
  std::vector<double> short_factors = {};  // longrope, one for each pair
  std::vector<double> long_factors = {};
};

/// The frequencies of `size` elements of each head of a network of `context` tokens. Throws Error on an
/// unknown type and on factors that are too few or not positive.
Rotary rotary_of(const RotaryScaling& scaling, int64_t size, int64_t context);

/// YaRN's factor of queries and keys for positions stretched by `factor`: 0.1 mscale ln(factor) + 1, and 1
/// where nothing is stretched (Peng et al. 2023, arXiv:2309.00071, section 3.4).
double yarn_magnitude(double factor, double mscale = 1);

/// How perceptrons of GPT-OSS gate: up and gate are clamped to +- limit, the gate only from above; then
/// (up + 1) gate sigmoid(slope gate).
struct ClampedGate {
  double slope = 0;  // 0: none
  double limit = 0;
};

/// Gated perceptrons in the place of one, of which a router picks some for each token. Their results are
/// added up by their shares: softmax of the router's.
struct Experts {
  int64_t count = 0;         // 0: none
  int64_t used = 0;          // for each token
  int64_t intermediate = 0;  // of each
  bool normalized = true;    // shares of those that are used add up to 1, else those of all do
  int64_t shared = 0;        // size of one that takes all tokens besides; 0: none
  bool shared_gate = false;  // whose result is multiplied by the sigmoid of a layer of its own
  bool has_biases = false;   // of the router and of experts
  bool by_sigmoid = false;   // shares are sigmoids in place of softmax
  bool choice_bias = false;  // is added to shares where experts are picked, not where they count
  int64_t groups = 1;        // of experts in a row, of which those with the greatest shares are used
  int64_t groups_used = 1;
  int64_t group_shares = 2;  // greatest shares of a group, whose sum is that of the group
  double scale = 1;          // of shares
  double least_sum = 1e-20;  // of shares that are normalized
  double added_to_sum = 0;   // of these
  ClampedGate gate = {};
  std::vector<bool> layers = {};  // which have experts; empty: all
};

/// Keys and values of all heads come out of one short row of each token (DeepSeek V2, arXiv:2405.04434).
/// Heads of queries and keys begin with the elements that turn, which all heads of keys share.
struct LatentAttention {
  int64_t rank = 0;        // of that row; 0: keys and values come out of hidden states
  int64_t query_rank = 0;  // of a row for queries, likewise
  int64_t turning = 0;     // elements of a head
  bool bias = false;       // of the layers that give these rows
  double norm_eps = 1e-6;  // of their norms
};

/// Scores get products of queries, and of keys, with a row by the distance of both (DeBERTa, He et al. 2021,
/// arXiv:2006.03654). Half of these rows are for keys on either side.
struct DisentangledAttention {
  int64_t span = 0;           // half of the rows; 0: none
  int64_t most_distance = 0;  // half of `span` have one distance each, others more, up to this; 0: all one
  bool of_queries = false;
  bool of_keys = false;
  bool shares_layers = false;  // rows pass the layers of queries and keys, not layers of their own
  bool norm = false;           // of the rows
};

/// A convolution of the embedding along the text, which is added to what the first layer gives, before a norm
/// of its own (DeBERTa v2).
struct TextConvolution {
  int64_t width = 0;  // 0: none
  int64_t groups = 1;
  Activation activation = Activation::kTanh;
};

/// In the place of attention in some layers: a convolution of each element along the text before a token,
/// between products with two gates (LFM2).
struct ShortConvolution {
  int64_t width = 0;  // tokens; 0: none
  bool bias = false;
  std::vector<bool> layers = {};  // which have it
};

/// A head with labels: a layer, an activation and a norm where there are some, then a layer of the labels.
struct NetworkHead {
  HeadKind kind = HeadKind::kNone;
  TokenPooling pooling = TokenPooling::kFirst;
  std::string layer = {};  // its weights' name; empty: none
  bool layer_bias = true;
  std::optional<Activation> activation = {};
  std::string norm = {};
  std::string last = "classifier";
  bool last_bias = true;
  std::string result = "logits";
  /// Folder of an embedding's layer, its size, and whether the embedding gets length 1.
  std::string folder = {};
  int64_t size = 0;
  bool is_normalized = false;
  int64_t labels = 0;
  std::vector<std::string> names = {};  // of the labels; empty: unknown
};

/// Architecture of a language model, from whatever file: config.json (read_language_config), or the metadata
/// of a GGUF file.
struct LanguageConfig {
  std::string family;  // a name of families/families.h, as "llama"
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_size = 0;
  int64_t value_size = 0;  // of a head of values; 0: head_size
  LatentAttention latent = {};
  int64_t intermediate = 0;
  int64_t vocabulary = 0;
  int64_t context = 0;
  int64_t embedded_size = 0;  // of tokens, projected to and from the hidden size; 0: hidden

  NormKind norm = NormKind::kRmsNorm;
  NormPlace norm_place = NormPlace::kBefore;
  double norm_eps = 1e-6;
  bool norm_adds_one = false;  // rms norms multiply by 1 + weight
  bool norm_weight = true;     // else norms multiply by nothing (OLMo 1)
  bool norm_bias = true;       // layer norms have one
  bool first_norm = true;      // before the first attention
  bool final_norm = true;
  bool embedding_norm = false;
  bool is_causal = true;            // else an encoder
  bool projects_embedding = false;  // from embedded_size, even where that is the hidden size

  PerceptronKind perceptron = PerceptronKind::kGated;
  PerceptronPlace perceptron_place = PerceptronPlace::kAfter;
  Activation activation = Activation::kSilu;
  Experts experts = {};

  bool qkv_bias = false;
  bool output_bias = false;  // of the projection after attention
  bool perceptron_bias = false;
  bool head_bias = false;
  bool tied_head = false;  // logits by the rows of the embedding
  /// A layer to the size of tokens, an activation and a norm before the logits (BERT).
  bool head_layer = false;
  bool head_layer_bias = false;
  Activation head_activation = Activation::kGelu;

  bool qk_norm = false;           // of each head's query and key
  bool qk_norm_of_all = false;    // of the queries of all heads together, and of the keys
  bool qk_norm_by_head = false;   // weights of each head's own
  bool qk_norm_turned = false;    // norms of heads after their rotation
  bool inner_norms = false;       // before the last layer of attention and of perceptrons (BitNet)
  bool sinks = false;             // each head's softmax counts a score that belongs to no key
  bool divides_by_layer = false;  // scores of layer i by i + 1 too
  /// The file has elements 2 i and 2 i + 1 as a pair (GPT-J), by rows of queries and keys that are reordered
  /// as they are read.
  bool turns_neighbours = false;
  /// Queries are multiplied by 1 + query_growth log(1 + floor(position / query_growth_from)) (Ministral 3).
  double query_growth = 0;
  int64_t query_growth_from = 0;
  double attention_scale = 0;            // of the scores; 0: 1 / sqrt(head_size)
  std::optional<double> qkv_limit = {};  // queries, keys and values are clamped to +- that
  std::optional<double> score_cap = {};  // cap tanh(score / cap)
  std::optional<double> logit_cap = {};
  double embedding_scale = 1;
  double residual_scale = 1;  // of what attention and perceptron give
  double logit_scale = 1;

  Rotary rotary = {};
  Rotary window_rotary = {};  // of layers with a window; equal to `rotary` in most families
  /// 0: none; a query sees this many tokens up to its own, or those at most as far on either side (encoder).
  int64_t window = 0;
  std::vector<bool> has_window = {};  // of each layer; empty: all, if there is a window
  std::vector<bool> turns = {};       // which layers have `rotary`; empty: all

  int64_t positions = 0;        // rows of the table of learned positions; 0: none
  int64_t position_offset = 0;  // row of the first position
  PositionCount position_count = PositionCount::kAll;
  int64_t further_layers = 0;  // that a file has after these, which predict further tokens
  int64_t token_types = 0;     // rows of the table of token types; 0: none
  /// Scores get a bias by the distance of key and query: rows of its table; 0: none. Half of them are for
  /// keys on either side, half of those for one distance each, the others for more (Raffel et al.
  /// 2020, arXiv:1910.10683).
  int64_t distances = 0;
  int64_t most_distance = 128;      // of those for more than one
  bool distances_by_layer = false;  // each layer has a table of its own (UMT5)
  /// Places of keys count in the place of distances, times slopes in bfloat16, as is their product, and are
  /// scaled as scores (Falcon).
  bool slopes_of_places = false;
  /// Scores get the distance of key and query, times 2^(-slopes i / heads) for head i of 1 to the number of
  /// heads (Press et al. 2021, arXiv:2108.12409); 0: none. Where that number is no power of two, the greatest
  /// one below takes its place, and heads left over have the slopes between.
  double distance_slopes = 0;

  DisentangledAttention disentangled = {};
  TextConvolution convolution = {};
  ShortConvolution short_convolution = {};
  NetworkHead head = {};

  std::optional<int64_t> bos = {};
  std::vector<int64_t> eos = {};
  std::optional<int64_t> pad = {};

  bool layer_has_window(int64_t layer) const {
    return window > 0 && (has_window.empty() || has_window[static_cast<size_t>(layer)]);
  }
  bool layer_convolves(int64_t layer) const {
    return short_convolution.width > 0 && short_convolution.layers[static_cast<size_t>(layer)];
  }
  bool layer_has_experts(int64_t layer) const {
    return experts.count > 0 && (experts.layers.empty() || experts.layers[static_cast<size_t>(layer)]);
  }
  bool gives_text() const { return is_causal && head.kind == HeadKind::kNone; }
  bool has_vocabulary_head() const {
    return gives_text() || head.kind == HeadKind::kMaskedTokens ||
           head.kind == HeadKind::kMaskedTokensAndLabels;
  }
  /// Factor of the products of queries and keys.
  double score_scale(int64_t layer) const;
  int64_t size_of_values() const { return value_size == 0 ? head_size : value_size; }
  int64_t token_size() const { return embedded_size == 0 ? hidden : embedded_size; }
  bool layer_turns(int64_t layer) const { return turns.empty() || turns[static_cast<size_t>(layer)]; }
};

/// Whether each layer is another than the last of `every` in a row; `every` is at least 1.
std::vector<bool> all_but_each(int64_t layers, int64_t every);

/// Throws Error naming `where` on sizes that are not positive or do not fit one another, and on such as no
/// memory holds: it can be relied on that no product of them overflows.
void check_language_config(const LanguageConfig& config, const std::string& where);

/// Reads a config.json of transformers 4 or 5, of a family that is known. Throws Error naming `where` and the
/// key: an unknown model_type with the nearest family, a missing key, what no family has.
LanguageConfig read_language_config(const Value& json, const std::string& where);

}  // namespace detent
