#include "detent/language/decoder.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "detent/core/error.h"
#include "detent/engine/kernels/kernel_set.h"
#include "detent/engine/row_layer.h"
#include "detent/graph/accumulator.h"
#include "detent/graph/node_names.h"
#include "detent/graph/operators.h"
#include "detent/graph/traits.h"
#include "detent/inference/float_nodes.h"
#include "detent/inference/reference_step.h"
#include "detent/kernels/packed_linear.h"
#include "detent/language/cache_format.h"
#include "detent/language/cached_tensor.h"
#include "detent/language/language_graph.h"
#include "detent/language/language_weights.h"
#include "detent/language/sequence_cache.h"

namespace detent {
namespace {

using Flows = std::vector<Flow>;  // of each sequence

/// Where a value is kept while the steps run.
constexpr size_t kNowhere = SIZE_MAX;

/// A layer of rows that computes in float32, on values or on those of codes.
bool is_plain_linear(const ReferenceStep& step) {
  const auto* sum = trait<WeightedSum>(*step.node);
  return sum != nullptr && sum->spatial_dims == 0 && !sum->transposed && !step.form &&
         step.rounds == nullptr && step.engine == NodeEngine::kFloat &&
         step.node->find_parameter("weight") != nullptr && !accumulator_of(*step.node);
}

/// In float32 on float32, or on codes.
bool is_product(const ReferenceStep& step) {
  const auto is_set = [](const std::optional<CodeType>& type) { return type.has_value(); };
  if (trait<MatrixProduct>(*step.node) == nullptr || step.node->inputs.size() != 2) return false;
  if (step.form) return std::holds_alternative<ProductForm>(*step.form);
  return std::ranges::none_of(step.inputs, is_set) && std::ranges::none_of(step.outputs, is_set);
}

/// Function of pairs of codes that the node takes; null where that is the reference.
std::shared_ptr<const CodePairs> pairs_of(const ReferenceStep& step) {
  const auto* form = step.form ? std::get_if<PairForm>(&*step.form) : nullptr;
  const bool takes_codes = step.inputs.size() == 2 && step.inputs[0] && step.inputs[1];
  return form != nullptr && takes_codes ? code_pairs(*form) : nullptr;
}

/// kRowsOfFile: gives rows of a table that stays in its file. kUnrounded: leaves its input as it is, since a
/// cache rounds it.
enum class StepKind {
  kAny,
  kLinear,
  kCodeLinear,
  kCodePairs,
  kRowsOfFile,
  kUnrounded,
  kCache,
  kCacheProduct,
  kCacheRows
};

/// A layer whose weights are packed: one that computes in float32, or one on codes.
struct DecoderLayer {
  std::shared_ptr<const PackedLinear> linear = {};
  std::shared_ptr<const RowLayer> on_codes = {};

  int64_t byte_size() const { return linear != nullptr ? linear->byte_size() : on_codes->weight_bytes(); }
};
using DecoderLayers = std::map<std::string, DecoderLayer, std::less<>>;

struct DecoderStep {
  const ReferenceStep* reference;
  StepKind kind = StepKind::kAny;
  std::vector<size_t> inputs = {};  // places; kNowhere of a constant
  size_t output = 0;                // place of the first result
  std::vector<size_t> last_reads = {};
  DecoderLayer layer = {};
  int64_t outputs_of_linear = 0;
  std::shared_ptr<const CodePairs> pairs = {};
  size_t cache = 0;                       // of kCache, and what kCacheProduct or kCacheRows read
  const ReferenceStep* reader = nullptr;  // of kCache, where only kCacheProduct reads it: the first
  bool gives_rows = false;                // of kCache, where only kCacheRows reads it
  /// Place of the share by which all that comes of this step is multiplied. Where it is 0 of all tokens, the
  /// step is left out; the one that the product reads, whose rows have `width` elements, then gives zeros.
  size_t share = kNowhere;
  int64_t width = 0;
};

/// Whether some of its inputs or results are codes.
bool has_codes(const ReferenceStep& step) {
  const auto is_set = [](const std::optional<CodeType>& type) { return type.has_value(); };
  return std::ranges::any_of(step.inputs, is_set) || std::ranges::any_of(step.outputs, is_set);
}

/// Whether it picks tokens out of values [1, heads, tokens, size], by the name that short_convolution gives
/// it.
bool takes_rows(const Node& node) {
  constexpr int64_t kTokenAxis = 2;
  return node.target.ends_with(".state_rows") && node.inputs.size() == 2 && !node.inputs[1].is_constant() &&
         find_operator(node.op).find_attribute("dim") != nullptr &&
         integer_attribute(node, "dim") == kTokenAxis;
}

/// Whether an expert has no share of any token.
bool is_unused(const Flows& shares) {
  return std::ranges::all_of(shares, [](const Flow& share) {
    const bool is_plain = !share.type && share.tensor.dtype() == DType::kFloat32;
    return is_plain && std::ranges::all_of(share.tensor.values<float>(), [](float x) { return x == 0; });
  });
}

/// Results of a step of an unused expert.
Flows zeros_of(const DecoderStep& step, const Flows& shares) {
  Flows zeros;
  for (const Flow& share : shares) {
    Shape shape = share.tensor.shape();
    shape.back() = step.width;
    zeros.push_back(
        converted(*step.reference->node, {Tensor(DType::kFloat32, shape)}, step.reference->outputs.front()));
  }
  return zeros;
}

Flow product_of_cache(const ReferenceStep& step, const Flow& a, const CachedTensor& cache, int64_t tokens) {
  if (!step.form) return {cache_product(as_values(a), cache, tokens)};
  const auto& form = std::get<ProductForm>(*step.form);
  const Tensor sums = cache_code_product(form, *step.node, a.tensor, cache, tokens);
  if (!form.output) {
    Flow result{mapped<int32_t, float>(sums, [&](int32_t sum) { return form.result(sum); })};
    return converted(*step.node, std::move(result), step.outputs[0]);
  }
  const Flow result{mapped<int32_t, int32_t>(sums, [&](int32_t sum) { return form.requantized(sum); }),
                    form.output};
  return converted(*step.node, result, step.outputs[0]);
}

/// The last token of [1, tokens, size].
Flow last_token(const Flow& flow) {
  Flow last = flow;
  const Shape& shape = flow.tensor.shape();
  const Tensor tokens = flow.tensor.reshaped({shape[1], shape[2]});
  last.tensor = tokens.rows(shape[1] - 1, shape[1]).reshaped({1, 1, shape[2]});
  return last;
}

/// The rows of all sequences, one after another.
Tensor joined_rows(const Flows& inputs) {
  const Tensor& first = inputs.front().tensor;
  const int64_t depth = first.shape().back();
  if (inputs.size() == 1) return first.reshaped({first.numel() / depth, depth});
  int64_t rows = 0;
  for (const Flow& input : inputs) rows += input.tensor.numel() / depth;
  Tensor joined(first.dtype(), {rows, depth});
  auto to = joined.bytes().begin();
  for (const Flow& input : inputs) to = std::ranges::copy(input.tensor.bytes(), to).out;
  return joined;
}

/// Rows `stride` elements long, of which `outputs` count, as those of each sequence.
Flows parted_rows(const Tensor& rows, int64_t outputs, const Flows& inputs) {
  Flows results;
  const auto element = static_cast<int64_t>(dtype_size(rows.dtype()));
  const int64_t stride = rows.dim(1);
  const std::byte* from = rows.bytes().data();
  for (const Flow& input : inputs) {
    Shape shape = input.tensor.shape();
    const int64_t count = input.tensor.numel() / shape.back();
    shape.back() = outputs;
    if (inputs.size() == 1 && stride == outputs) return {{rows.reshaped(shape)}};
    Tensor result(rows.dtype(), shape);
    std::byte* to = result.bytes().data();
    for (int64_t row = 0; row < count; ++row, from += stride * element, to += outputs * element)
      std::copy_n(from, outputs * element, to);
    results.push_back({std::move(result)});
  }
  return results;
}

/// The layer on all sequences at once: its weights are read once.
Flows linear_results(const DecoderStep& step, const Flows& inputs) {
  const PackedLinear& linear = *step.layer.linear;
  const Tensor joined = as_values({joined_rows(inputs), inputs.front().type});
  Tensor sums(DType::kFloat32, {joined.dim(0), linear.stride()});
  linear.sums(joined.values<float>().data(), joined.dim(0), sums.values<float>().data());
  Flows results = parted_rows(sums, step.outputs_of_linear, inputs);
  const std::optional<CodeType>& type = step.reference->outputs.front();
  for (Flow& result : results) result = converted(*step.reference->node, std::move(result), type);
  return results;
}

Flows code_results(const DecoderStep& step, const Flows& inputs) {
  const Flow rows = step.layer.on_codes->results(joined_rows(inputs));
  Flows results = parted_rows(rows.tensor, step.outputs_of_linear, inputs);
  for (Flow& result : results) {
    result.type = rows.type;
    result = converted(*step.reference->node, std::move(result), step.reference->outputs.front());
  }
  return results;
}

/// Scales of an affine format without zero points.
WeightScales weight_scales(const Node& node) {
  const std::optional<QuantSpec> rounding = node.rounding("weight");
  if (!rounding) return {};
  WeightScales found;
  for (const CodeType& type : code_types(*rounding)) {
    if (type.zero_point != 0) return {};
    found.scales.push_back(type.scale);
  }
  const Tensor& weight = node.find_parameter("weight")->tensor;
  const auto groups = std::max<int64_t>(std::ssize(found.scales) / weight.dim(0), 1);
  found.group = rounding->group_size.value_or((weight.dim(1) + groups - 1) / groups);
  return found;
}

std::shared_ptr<const PackedLinear> deferred_linear(const Node& node, const DeferredWeights& weights) {
  const Parameter* const bias = node.find_parameter("bias");
  const auto layer = weights.layer(node.target + ".weight", node.find_parameter("weight")->tensor.shape());
  return std::make_shared<const PackedLinear>(
      layer.weight, bias == nullptr ? std::nullopt : std::optional(bias->tensor), layer.scales);
}

std::shared_ptr<const PackedLinear> packed_linear(const Node& node) {
  std::optional<Tensor> weight;
  std::optional<Tensor> bias;
  for (const auto& [name, tensor] : rounded_parameters(node)) (name == "weight" ? weight : bias) = tensor;
  return std::make_shared<const PackedLinear>(*weight, bias, weight_scales(node));
}

}  // namespace

struct Decoder::Compiled {
  std::shared_ptr<const DeferredWeights> deferred;  // may be null
  std::unique_ptr<ReferencePlan> plan;
  std::vector<DecoderStep> steps;
  std::vector<CachedTensor> caches;  // without tokens
  size_t places = 0;
  size_t head = 0;  // the step that gives logits
  int64_t vocabulary = 0;
  int64_t embedded = 0;  // rows of the table of tokens
  int64_t context = 0;
  int64_t positions = 0;
  int64_t weight_bytes = 0;

  /// One sequence of a run.
  struct Sequence {
    SequenceCache::Contents* cache;
    std::span<const int64_t> tokens;
    int64_t total() const { return cache->size + static_cast<int64_t>(tokens.size()); }
  };

  Compiled(Graph graph, std::shared_ptr<const DeferredWeights> weights);
  void add_steps(const DecoderLayers& layers);
  void note_readers();
  void note_experts();
  void note_expert(size_t router, size_t product, size_t share,
                   const std::vector<std::vector<size_t>>& readers, const ValueTypes& values);
  void add_caches();
  std::shared_ptr<const CacheCodec> codec_of(const DecoderStep& step, int64_t size);
  void check();
  std::vector<Tensor> run(std::span<const Sequence> sequences, WantedLogits wanted) const;
  Flow input_of(const Node& node, const Sequence& sequence) const;
  Flows taken(const DecoderStep& step, const std::vector<Flows>& values, size_t sequence,
              bool last_only) const;
  Flows moved_inputs(const DecoderStep& step, const std::vector<Flows>& values, size_t sequence) const;
  Flows moved_results(const DecoderStep& step, const Sequence& sequence, const std::vector<Flows>& values,
                      size_t index) const;
  Flow cached(const DecoderStep& step, Flow now, const Sequence& sequence) const;
  Flows sequence_results(const DecoderStep& step, const Sequence& sequence, const Flows& inputs) const;
  std::vector<Flows> results(const DecoderStep& step, std::span<const Sequence> sequences,
                             const std::vector<Flows>& places, bool last_only) const;
};

Decoder::Compiled::Compiled(Graph graph, std::shared_ptr<const DeferredWeights> weights)
    : deferred(std::move(weights)) {
  std::mutex mutex;
  DecoderLayers layers;
  const auto take = [&](ReferenceStep& step) {
    DecoderLayer layer;
    if (is_plain_linear(step)) {
      const bool is_in_file = is_deferred(*step.node->find_parameter("weight"));
      layer.linear = is_in_file ? deferred_linear(*step.node, *deferred) : packed_linear(*step.node);
    } else {
      layer.on_codes = take_row_layer(step);
      if (layer.on_codes == nullptr) return false;
    }
    const std::lock_guard lock(mutex);
    layers.emplace(step.node->name, std::move(layer));
    return true;
  };
  plan = reference_plan(std::move(graph), {.take = take});
  add_steps(layers);
  check();
  note_experts();
  add_caches();
}

void Decoder::Compiled::add_steps(const DecoderLayers& layers) {
  std::map<std::string, size_t, std::less<>> place_of;
  std::map<std::string, size_t, std::less<>> cache_of;
  for (const ReferenceStep& reference : plan->steps) {
    const Node& node = *reference.node;
    DecoderStep step{&reference};
    for (const NodeInput& input : node.inputs)
      step.inputs.push_back(input.is_constant() ? kNowhere : place_of.at(value_name(input)));
    for (const std::string& name : reference.last_reads) step.last_reads.push_back(place_of.at(name));
    step.output = places;
    const auto layer = layers.find(node.name);
    const auto kind = cache_kind(node);
    if (layer != layers.end()) {
      step.kind = layer->second.linear != nullptr ? StepKind::kLinear : StepKind::kCodeLinear;
      step.layer = layer->second;
      step.outputs_of_linear = node.find_parameter("weight")->tensor.dim(0);
      weight_bytes += step.layer.byte_size();
    } else if (deferred != nullptr && node.find_parameter("weight") != nullptr &&
               is_deferred(*node.find_parameter("weight"))) {
      step.kind = StepKind::kRowsOfFile;
    } else if (kind) {
      step.kind = StepKind::kCache;
      step.cache = cache_of.size();
      cache_of.emplace(node.name, step.cache);
    } else if (is_product(reference) && !cache_of.contains(node.inputs[0].node) &&
               cache_of.contains(node.inputs[1].node)) {
      step.kind = StepKind::kCacheProduct;
      step.cache = cache_of.at(node.inputs[1].node);
    } else if (takes_rows(node) && cache_of.contains(node.inputs[0].node)) {
      step.kind = StepKind::kCacheRows;
      step.cache = cache_of.at(node.inputs[0].node);
    } else if ((step.pairs = pairs_of(reference)) != nullptr) {
      step.kind = StepKind::kCodePairs;
    }
    if (trait<WeightedSum>(node) != nullptr) head = steps.size();
    if (reference.role != OperatorRole::kOutput) {
      for (size_t i = 0; i < result_count(node); ++i) place_of.emplace(value_name(node.name, i), places++);
    }
    steps.push_back(std::move(step));
  }
  note_readers();
}

/// Products read a cache where it lies, in the codes that all of them take; others get a copy of it.
void Decoder::Compiled::note_readers() {
  struct Readers {
    DecoderStep* cache;
    std::vector<DecoderStep*> products = {};
    std::vector<DecoderStep*> rows = {};
    bool are_others = false;
  };
  std::map<std::string, Readers, std::less<>> readers;
  for (DecoderStep& step : steps) {
    const Node& node = *step.reference->node;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const auto read = readers.find(node.inputs[i].node);
      if (read == readers.end()) continue;
      if (step.kind == StepKind::kCacheProduct && i == 1) {
        read->second.products.push_back(&step);
      } else if (step.kind == StepKind::kCacheRows && i == 0) {
        read->second.rows.push_back(&step);
      } else {
        read->second.are_others = true;
      }
    }
    if (step.kind == StepKind::kCache) readers.emplace(node.name, Readers{&step});
  }
  for (auto& [name, of_cache] : readers) {
    const auto& products = of_cache.products;
    const auto type = [](const DecoderStep* step) { return step->reference->inputs[1]; };
    const auto is_alike = [&](const DecoderStep* step) { return type(step) == type(products.front()); };
    const auto& rows = of_cache.rows;
    const auto is_plain = [](const DecoderStep* step) { return !has_codes(*step->reference); };
    if (!products.empty() && rows.empty() && !of_cache.are_others &&
        std::ranges::all_of(products, is_alike)) {
      of_cache.cache->reader = products.front()->reference;
      continue;
    }
    for (DecoderStep* const product : products) product->kind = StepKind::kAny;
    of_cache.cache->gives_rows = !rows.empty() && products.empty() && !of_cache.are_others &&
                                 is_plain(of_cache.cache) && std::ranges::all_of(rows, is_plain);
    if (of_cache.cache->gives_rows) continue;
    for (DecoderStep* const row : rows) row->kind = StepKind::kAny;
  }
}

/// Steps between what the router's experts have in common and the products with their shares.
void Decoder::Compiled::note_experts() {
  std::vector<std::vector<size_t>> readers(places);  // steps that read each place
  for (size_t i = 0; i < steps.size(); ++i) {
    for (const size_t place : steps[i].inputs) {
      if (place != kNowhere) readers[place].push_back(i);
    }
  }
  ValueTypes values;
  for (size_t router = 0; router < steps.size(); ++router) {
    const Node& node = *steps[router].reference->node;
    if (!node.target.ends_with(kExpertShares)) continue;
    if (values.empty()) values = values_of_tokens(plan->graph, 1);
    for (size_t e = 0; e < result_count(node); ++e) {
      const size_t share = steps[router].output + e;
      if (readers[share].size() == 1) note_expert(router, readers[share].front(), share, readers, values);
    }
  }
}

void Decoder::Compiled::note_expert(size_t router, size_t product, size_t share,
                                    const std::vector<std::vector<size_t>>& readers,
                                    const ValueTypes& values) {
  const auto* operation = trait<PairOperation>(*steps[product].reference->node);
  if (operation == nullptr || *operation != PairOperation::kMul) return;
  const auto is_inside = [&](size_t reader) { return reader == product || steps[reader].share == share; };
  for (size_t i = product; --i > router;) {
    DecoderStep& step = steps[i];
    const Node& node = *step.reference->node;
    const bool is_plain = result_count(node) == 1 && step.kind != StepKind::kCache && !step.inputs.empty();
    const std::vector<size_t>& of_step = readers[step.output];
    if (!is_plain || of_step.empty() || !std::ranges::all_of(of_step, is_inside)) continue;
    step.share = share;
    if (std::ranges::find(of_step, product) != of_step.end())
      step.width = values.at(value_name(node.name)).shape.back();
  }
}

/// How the cache of a step keeps values: as codes where its products take codes, or where they are rounded to
/// such on the way there, which then is left to the cache. Null: as they are.
std::shared_ptr<const CacheCodec> Decoder::Compiled::codec_of(const DecoderStep& step, int64_t size) {
  if (step.reader == nullptr) return nullptr;
  if (const auto& type = step.reader->inputs[1]) return CacheCodec::of_codes(*type);
  std::vector<DecoderStep*> givers;  // what moves the values, and what rounds them
  for (const Node* node = step.reference->node; givers.size() < 2;) {
    const NodeInput& input = node->inputs.front();
    const auto giver = std::ranges::find_if(
        steps, [&](const DecoderStep& other) { return other.reference->node->name == input.node; });
    int64_t reads = 0;
    for (const DecoderStep& other : steps) reads += std::ranges::count(other.reference->node->inputs, input);
    if (giver == steps.end() || reads != 1 || giver->reference->node->inputs.empty()) return nullptr;
    givers.push_back(&*giver);
    node = giver->reference->node;
  }
  for (const ReferenceStep* const taken : {step.reference, givers[0]->reference, givers[1]->reference}) {
    if (has_codes(*taken)) return nullptr;
  }
  const RoundedOperand* const rounds = givers[1]->reference->rounds;
  if (rounds == nullptr || !rounds->rounding.spec) return nullptr;
  std::shared_ptr<const CacheCodec> codec = cache_codec(*rounds->rounding.spec, size);
  if (codec != nullptr) givers[1]->kind = StepKind::kUnrounded;
  return codec;
}

void Decoder::Compiled::add_caches() {
  const ValueTypes values = values_of_tokens(plan->graph, 1);
  const auto pool = std::make_shared<PagePool>();
  for (const DecoderStep& step : steps) {
    if (step.kind != StepKind::kCache) continue;
    const Node& node = *step.reference->node;
    const Shape& shape = values.at(value_name(node.name)).shape;
    const auto kind = *cache_kind(node);
    const int64_t size = shape.at(kind == CachedTensor::Kind::kKeys ? 2 : 3);
    caches.emplace_back(kind, shape, pool, codec_of(step, size));
  }
}

void Decoder::Compiled::check() {
  const Graph& graph = plan->graph;
  const Node* const table = graph.find("embed_tokens");
  const bool has_inputs = graph.input_types().contains(kTokensInput) &&
                          graph.input_types().contains(kMaskInput) && graph.input_types().size() == 2;
  const bool has_caches = std::ranges::find(steps, StepKind::kCache, &DecoderStep::kind) != steps.end();
  if (!has_inputs || table == nullptr || !has_caches ||
      trait<WeightedSum>(*steps[head].reference->node) == nullptr)
    fail(
        "graph \"{}\": no causal language model: expected inputs {} and {}, and nodes that keep keys and "
        "values",
        graph.name(), kTokensInput, kMaskInput);
  embedded = table->find_parameter("weight")->tensor.dim(0);
  vocabulary = steps[head].reference->node->find_parameter("weight")->tensor.dim(0);
  const Node* const longest = graph.find(kContextNode);
  const Parameter* const value = longest == nullptr ? nullptr : longest->find_parameter("value");
  if (value != nullptr && value->tensor.dtype() == DType::kInt64 && value->tensor.numel() == 1)
    context = value->tensor.values<int64_t>()[0];
  const Node* const rows = graph.find("embed_positions");
  if (rows == nullptr) return;
  positions = rows->find_parameter("weight")->tensor.dim(0);
  if (context > 0) positions = std::min(positions, context);
}

Flow Decoder::Compiled::input_of(const Node& node, const Sequence& sequence) const {
  const auto count = std::ssize(sequence.tokens);
  if (node.name == kTokensInput) return {Tensor::from<int64_t>({1, count}, sequence.tokens)};
  Tensor mask(DType::kInt64, {1, sequence.total()});
  std::ranges::fill(mask.values<int64_t>(), 1);
  return {std::move(mask)};
}

Flows Decoder::Compiled::taken(const DecoderStep& step, const std::vector<Flows>& values, size_t sequence,
                               bool last_only) const {
  const Node& node = *step.reference->node;
  Flows inputs;
  inputs.reserve(step.inputs.size());
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    if (step.inputs[i] == kNowhere) {
      inputs.push_back(constant_flow(node.inputs[i]));
    } else {
      inputs.push_back(converted(node, values[step.inputs[i]][sequence], step.reference->inputs[i]));
    }
  }
  if (last_only) inputs.front() = last_token(inputs.front());
  return inputs;
}

/// The inputs in front of constants, which cost more than all else that a view does.
Flows Decoder::Compiled::moved_inputs(const DecoderStep& step, const std::vector<Flows>& values,
                                      size_t sequence) const {
  Flows inputs;
  inputs.reserve(step.inputs.size());
  for (size_t i = 0; i < step.inputs.size() && step.inputs[i] != kNowhere; ++i) {
    const Flow& value = values[step.inputs[i]][sequence];
    inputs.push_back(converted(*step.reference->node, value, step.reference->inputs[i]));
  }
  return inputs;
}

/// New tokens go into the cache, where products read them; others get all of it.
Flow Decoder::Compiled::cached(const DecoderStep& step, Flow now, const Sequence& sequence) const {
  CachedTensor& cache = sequence.cache->tensors[step.cache];
  if (step.reader != nullptr) {
    const std::optional<CodeType>& type = step.reader->inputs[1];
    now = type ? converted(*step.reader->node, std::move(now), type) : Flow{as_values(now)};
  }
  cache.write(now.tensor, sequence.cache->size);
  if (step.reader == nullptr && !step.gives_rows) now.tensor = cache.first(sequence.total());
  return now;
}

Flows Decoder::Compiled::sequence_results(const DecoderStep& step, const Sequence& sequence,
                                          const Flows& inputs) const {
  const ReferenceStep& reference = *step.reference;
  if (reference.role == OperatorRole::kInput) return {input_of(*reference.node, sequence)};
  if (step.kind == StepKind::kCacheProduct)
    return {product_of_cache(reference, inputs[0], sequence.cache->tensors[step.cache], sequence.total())};
  if (step.kind == StepKind::kCacheRows)
    return {{sequence.cache->tensors[step.cache].rows(inputs[1].tensor.values<int64_t>())}};
  if (step.kind == StepKind::kRowsOfFile) {
    const Tensor& ids = inputs[0].tensor;
    const Tensor rows = deferred->rows(reference.node->target + ".weight", ids.values<int64_t>());
    return {{rows.reshaped({1, ids.dim(1), rows.dim(1)})}};
  }
  if (step.kind == StepKind::kUnrounded) return {{as_values(inputs[0])}};
  if (step.kind == StepKind::kCodePairs) {
    const auto& form = std::get<PairForm>(*reference.form);
    const Flow pairs{step.pairs->results(inputs[0].tensor, inputs[1].tensor), form.output};
    return {converted(*reference.node, pairs, reference.outputs[0])};
  }
  return reference_results(reference, inputs, plan->in_float.get());
}

Flows Decoder::Compiled::moved_results(const DecoderStep& step, const Sequence& sequence,
                                       const std::vector<Flows>& values, size_t index) const {
  KnownMove& move = sequence.cache->moves[static_cast<size_t>(&step - steps.data())];
  if (auto known = move.results(moved_inputs(step, values, index))) return *std::move(known);
  const Flows inputs = taken(step, values, index, false);
  Flows results = reference_results(*step.reference, inputs, plan->in_float.get());
  move.note(*step.reference->node, inputs, results);
  return results;
}

/// The results of one step, for each of them those of all sequences.
std::vector<Flows> Decoder::Compiled::results(const DecoderStep& step, std::span<const Sequence> sequences,
                                              const std::vector<Flows>& values, bool last_only) const {
  if (step.kind == StepKind::kLinear || step.kind == StepKind::kCodeLinear) {
    Flows rows;
    for (size_t s = 0; s < sequences.size(); ++s) rows.push_back(taken(step, values, s, last_only).front());
    return {step.kind == StepKind::kLinear ? linear_results(step, rows) : code_results(step, rows)};
  }
  const ReferenceStep& reference = *step.reference;
  const bool moves =
      reference.engine == NodeEngine::kMoves && !reference.form && step.kind != StepKind::kCacheRows;
  std::vector<Flows> results;
  for (size_t s = 0; s < sequences.size(); ++s) {
    Flows of_sequence = moves ? moved_results(step, sequences[s], values, s)
                              : sequence_results(step, sequences[s], taken(step, values, s, last_only));
    if (step.kind == StepKind::kCache) of_sequence[0] = cached(step, std::move(of_sequence[0]), sequences[s]);
    results.resize(of_sequence.size());
    for (size_t i = 0; i < of_sequence.size(); ++i) results[i].push_back(std::move(of_sequence[i]));
  }
  return results;
}

std::vector<Tensor> Decoder::Compiled::run(std::span<const Sequence> sequences, WantedLogits wanted) const {
  const KeptTileShapes kept;
  std::vector<Flows> values(places);
  for (size_t i = 0; i < steps.size(); ++i) {
    const DecoderStep& step = steps[i];
    if (step.reference->role == OperatorRole::kOutput) break;
    if (step.share != kNowhere && is_unused(values[step.share])) {
      if (step.width > 0) values[step.output] = zeros_of(step, values[step.share]);
      for (const size_t place : step.last_reads) values[place].clear();
      continue;
    }
    const bool last_only = i == head && wanted == WantedLogits::kOfLastToken;
    std::vector<Flows> of_step = results(step, sequences, values, last_only);
    for (size_t r = 0; r < of_step.size(); ++r) values[step.output + r] = std::move(of_step[r]);
    for (const size_t place : step.last_reads) values[place].clear();
  }
  std::vector<Tensor> logits;
  for (size_t s = 0; s < sequences.size(); ++s) {
    const Tensor of_tokens = as_values(taken(steps.back(), values, s, false).front());
    logits.push_back(of_tokens.reshaped({of_tokens.dim(1), of_tokens.dim(2)}));
  }
  return logits;
}

Decoder::Decoder(Graph graph, std::shared_ptr<const DeferredWeights> weights)
    : compiled_(std::make_unique<const Compiled>(std::move(graph), std::move(weights))) {}
Decoder::~Decoder() = default;
Decoder::Decoder(Decoder&&) noexcept = default;

SequenceCache Decoder::start() const {
  auto contents = std::make_unique<SequenceCache::Contents>();
  contents->tensors = compiled_->caches;
  contents->moves.resize(compiled_->steps.size());
  return SequenceCache(std::move(contents));
}

void Decoder::expect_positions(int64_t tokens) const {
  const int64_t most = compiled_->positions;
  if (most > 0 && tokens > most)
    fail("{} tokens: the network has positions for {}, the rows of its table", tokens, most);
}

std::vector<Tensor> Decoder::run(std::span<const DecoderInput> inputs, WantedLogits wanted) const {
  std::vector<Compiled::Sequence> sequences;
  for (const DecoderInput& input : inputs) {
    if (input.tokens.empty()) fail("no tokens are put after a sequence");
    const auto is_same = [&](const DecoderInput& other) { return other.cache == input.cache; };
    DETENT_CHECK(std::ranges::count_if(inputs, is_same) == 1, "one cache for several of {} inputs",
                 inputs.size());
    for (const int64_t token : input.tokens) {
      if (token < 0 || token >= compiled_->embedded)
        fail("token {}: the vocabulary has 0 to {}", token, compiled_->embedded - 1);
    }
    DETENT_CHECK(input.cache->contents_->tensors.size() == compiled_->caches.size(), "a cache of {} tensors",
                 input.cache->contents_->tensors.size());
    sequences.push_back({input.cache->contents_.get(), input.tokens});
    expect_positions(sequences.back().total());
  }
  if (sequences.empty()) return {};
  std::vector<Tensor> logits = compiled_->run(sequences, wanted);
  for (const Compiled::Sequence& sequence : sequences) sequence.cache->size = sequence.total();
  return logits;
}

Tensor Decoder::run(SequenceCache& cache, std::span<const int64_t> tokens, WantedLogits wanted) const {
  const DecoderInput input{&cache, tokens};
  return run(std::span(&input, 1), wanted).front();
}

int64_t Decoder::vocabulary() const { return compiled_->vocabulary; }

int64_t Decoder::context() const { return compiled_->context; }

int64_t Decoder::positions() const { return compiled_->positions; }

DecoderMemory Decoder::memory(const DecoderLoad& load) const {
  const ReferencePlan& plan = *compiled_->plan;
  int64_t of_sequence = 0;
  for (const CachedTensor& cache : compiled_->caches) of_sequence += cache.bytes_for(load.tokens);
  return {compiled_->weight_bytes + parameter_bytes(plan), load.sequences * of_sequence,
          buffer_bytes(plan, compiled_->head, load)};
}

int64_t Decoder::weight_bytes() const { return compiled_->weight_bytes; }

}  // namespace detent
