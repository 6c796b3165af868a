#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/formats/quant_spec.h"
#include "detent/graph/graph.h"
#include "detent/kernels/packed_linear.h"
#include "detent/language/language_config.h"
#include "detent/language/language_model.h"
#include "detent/language/quantized/stored_matrix.h"

namespace detent {

// Tensors of a language model have the same names here whatever file they come from, {} being a layer's
// number, and .weight or .bias after each:
//
//   embed_tokens embed_positions embed_types embed_norm             tables [rows, hidden]
//   layers.{}.attention.query .key .value .output                   [out, in]
//   layers.{}.attention.query_norm .key_norm                        [head_size]
//   layers.{}.attention.latent .query_latent                        [rank, in], key, value, query after them
//   layers.{}.attention.latent_norm .query_latent_norm              [rank]
//   layers.{}.attention.turning_key                                 [elements that turn, in]
//   layers.{}.attention_norm .attention_post_norm                   before and after attention
//   layers.{}.perceptron.gate .up .down                             [out, in]
//   layers.{}.experts.{}.gate .up .down                             in their place, {} an expert's number
//   layers.{}.experts.router .shared_router                         [experts, in] and [1, in]
//   layers.{}.experts.choice                                        [experts]
//   layers.{}.experts.shared.gate .up .down
//   layers.{}.perceptron.activation.positive .negative .slope .least  [1], of xIELU
//   layers.{}.perceptron_norm .perceptron_post_norm
//   layers.{}.attention.output_norm layers.{}.perceptron.down_norm  before the last layer of each (BitNet)
//   layers.{}.attention.sink                                        [heads]
//   layers.{}.convolution.input .output                             [3 hidden, hidden], [hidden, hidden]
//   layers.{}.convolution.taps                                      [hidden, 1, width]
//   norm  head  head_layer  head_norm
//   project_in project_out                                          where tokens have a size of their own
//   distance_bias  layers.{}.attention.distance_bias                [distances, heads]
//   distance_rows  distance_norm                                    [2 span, hidden], and its norm (DeBERTa)
//   layers.{}.attention.distance_query .distance_key                [out, in], of these rows
//   text_convolution  text_convolution_norm                                [hidden, hidden / groups, width]
//   pooler  classifier_layer  classifier  answer_span  ...          of a head (NetworkHead)

/// Where the weights of a network come from.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  /// The tensor of that name, in float32 and of that shape; it may view the file. Throws Error naming file
  /// and tensor where it is missing or has another shape.
  virtual Tensor tensor(const std::string& name, const Shape& shape) = 0;
};

/// Which part of a stored tensor a weight is: of rows [query; key; value] or [gate; up] of one layer, one; or
/// of rows that are [queries; key; value] of one head of keys after another; or of rows of gate and up in
/// turn; of rows [latent; turning key], one; of rows that are [key; value] of one head after another, without
/// the elements that turn; or all of it, each head transposed; or of rows of [query; value; key] of a quarter
/// of the heads, one.
enum class WeightPart {
  kWhole,
  kQuery,
  kKey,
  kValue,
  kGate,
  kUp,
  kQueryOfHeads,
  kKeyOfHeads,
  kValueOfHeads,
  kGateOfPairs,
  kUpOfPairs,
  kLatent,
  kTurningKey,
  kKeyOfLatent,
  kValueOfLatent,
  kTransposedHeads,
  kQueryOfQuarters,
  kKeyOfQuarters,
  kValueOfQuarters
};

/// How a file calls a tensor: {} is the layer in both names, a second one the expert. Of several rules with
/// one name, the first counts whose tensor is there.
struct StoredName {
  std::string name;    // as above, without .weight and .bias: "layers.{}.attention.query"
  std::string stored;  // "model.layers.{}.self_attn.q_proj"
  WeightPart part = WeightPart::kWhole;
  bool transposed = false;  // stored as [in, out]
};

/// Tensors of a file.
class StoredTensors {
 public:
  virtual ~StoredTensors() = default;
  virtual std::vector<std::string> names() const = 0;
  /// nullopt if there is none.
  virtual std::optional<Shape> shape(const std::string& name) const = 0;
  /// In float32. Throws Error naming file and tensor.
  virtual Tensor values(const std::string& name) = 0;
  /// Rows of a matrix, of the file's own order, likewise.
  virtual Tensor rows(const std::string& name, std::span<const int64_t> indices) const = 0;
  /// Scales of a matrix's blocks, rows as in `values`.
  virtual std::optional<StoredScales> scales(const std::string& /*name*/) const { return std::nullopt; }
  /// How what the matrix multiplies is rounded; nullopt: not at all.
  virtual std::optional<QuantSpec> input_rounding(const std::string& /*name*/) const { return std::nullopt; }
  /// The file or folder, for messages.
  virtual std::string where() const = 0;
};

/// Name of the part of one expert, "NAME.5.weight", of a tensor "NAME.weight" [experts, out, in], or of one
/// without that end (GPT-OSS).
std::string name_of_expert(const std::string& name, int64_t expert);

/// A tensor required by a network.
struct NamedShape {
  std::string name;
  Shape shape;
};
/// The weights of such a network, in the order of the graph.
std::vector<NamedShape> expected_weights(const LanguageConfig& config);

/// Rows of heads whose first `turning` elements are pairs of neighbours, with the first of all pairs before
/// the second ones.
Tensor unpaired_rows(const Tensor& paired, int64_t head_size, int64_t turning);

/// Weights by the rules of a family out of what a file has; names there may lack the part of a stored name up
/// to its first point ("model.", "transformer.").
class RuledWeights final : public WeightSource {
 public:
  /// Keeps references. `ignored`: stored names that hold one of these need not be asked for. Throws Error
  /// listing tensors that are missing, have another shape, or that nothing asks for.
  RuledWeights(const LanguageConfig& config, std::vector<StoredName> rules, std::vector<std::string> ignored,
               StoredTensors& stored);

  /// Throws Error on infinities and NaN.
  Tensor tensor(const std::string& name, const Shape& shape) override;
  /// The same, and nothing is kept for the next: as far as the stored tensors may be read by several threads,
  /// these may be too.
  Tensor read(const std::string& name, const Shape& shape) const;

  /// Name in the file of the tensor that has this weight.
  std::string stored_name(const std::string& name) const { return find(name).stored; }
  /// Rounds the inputs of the network's matrices as the file says.
  void round_inputs_of(Graph& graph) const;
  /// Rows of the file as rows of the weight; nullopt where those are none.
  std::optional<Tensor> rows_of_weight(const std::string& name, const Tensor& whole) const;

 private:
  struct Found {
    const StoredName* rule = nullptr;
    std::string stored;
    bool is_there = false;
  };
  Found find(const std::string& name) const;
  void check() const;
  bool is_of_further_layer(const std::string& name) const;
  Tensor part_of(const Tensor& whole, WeightPart part) const;
  Tensor ordered(const std::string& pattern, const Tensor& rows) const;
  Tensor whole(const Found& found) const;
  Tensor taken(const std::string& name, const Found& found, const Tensor& whole, const Shape& shape) const;

  const LanguageConfig& config_;
  std::vector<StoredName> rules_;
  std::vector<std::string> ignored_;
  StoredTensors& stored_;
  std::string last_name_;  // the tensor that was asked for last, since others may be parts of it
  Tensor last_;
};

/// Weights that stay in a file until a decoder packs them, of a network whose parameters have their shapes
/// alone. Several threads may ask. Names are those of language_weights.h: "layers.3.attention.query.weight".
class DeferredWeights {
 public:
  virtual ~DeferredWeights() = default;

  struct Layer {
    Tensor weight;             // float32 [out, in]
    WeightScales scales = {};  // of the file's blocks, where it has some
  };
  virtual Layer layer(const std::string& name, const Shape& shape) const = 0;
  /// Rows of a table in float32. Throws Error where one has infinities or NaN.
  virtual Tensor rows(const std::string& name, std::span<const int64_t> indices) const = 0;
};

/// A network whose matrices stay where they are stored, but for small tables.
LanguageModel deferred_model(LanguageConfig config, std::vector<StoredName> rules,
                             std::vector<std::string> ignored, std::unique_ptr<StoredTensors> stored);

/// Whether the parameter is one whose weights are deferred.
inline bool is_deferred(const Parameter& parameter) { return parameter.tensor.bytes().data() == nullptr; }

}  // namespace detent
