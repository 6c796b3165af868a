#include "detent/language/decoder.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/core/product.h"
#include "detent/engine/row_layer.h"
#include "detent/float32/float_nodes.h"
#include "detent/float32/packed_linear.h"
#include "detent/graph/operators.h"
#include "detent/graph/traits.h"
#include "detent/language/language_graph.h"
#include "detent/language/sequence_cache.h"
#include "detent/runtime/reference_step.h"

namespace detent {
namespace {

using Flows = std::vector<Flow>;  // of each sequence

/// Where a value is kept while the steps run.
constexpr size_t kNowhere = SIZE_MAX;

std::optional<CachedTensor::Kind> cache_kind(const Node& node) {
  if (!is_view(node) || node.inputs.size() != 1) return std::nullopt;
  if (node.target.ends_with(".key_cache")) return CachedTensor::Kind::kKeys;
  if (node.target.ends_with(".value_cache")) return CachedTensor::Kind::kValues;
  return std::nullopt;
}

/// A layer of rows that computes in float32 on float32.
bool is_plain_linear(const ReferenceStep& step) {
  const auto is_set = [](const std::optional<CodeType>& type) { return type.has_value(); };
  const auto* sum = trait<WeightedSum>(*step.node);
  return sum != nullptr && sum->spatial_dims == 0 && !sum->transposed && !step.form &&
         step.rounds == nullptr && step.engine == NodeEngine::kFloat &&
         step.node->find_parameter("weight") != nullptr && std::ranges::none_of(step.inputs, is_set) &&
         std::ranges::none_of(step.outputs, is_set);
}

bool is_plain_product(const ReferenceStep& step) {
  const auto is_set = [](const std::optional<CodeType>& type) { return type.has_value(); };
  return trait<MatrixProduct>(*step.node) != nullptr && !step.form &&
         std::ranges::none_of(step.inputs, is_set) && std::ranges::none_of(step.outputs, is_set);
}

enum class StepKind { kAny, kLinear, kCodeLinear, kCache, kCacheProduct };

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
  size_t cache = 0;            // of kCache, and what kCacheProduct reads
  bool is_read_whole = false;  // of kCache: somebody else than a kCacheProduct reads it
};

/// Rows [rows of a, k] of each head times the head of a cache, whose first `tokens` count.
Tensor cache_product(const Tensor& a, const CachedTensor& cache, int64_t tokens) {
  const bool are_keys = cache.kind() == CachedTensor::Kind::kKeys;
  const int64_t rows = a.dim(2);
  const int64_t depth = a.dim(3);
  const int64_t columns = are_keys ? tokens : cache.size();
  const int64_t padded =
      (columns + FloatProduct::kPadding - 1) / FloatProduct::kPadding * FloatProduct::kPadding;
  constexpr int64_t kDepth = 128;  // the part of the cache under one tile stays in the first-level cache
  Tensor result(DType::kFloat32, {1, cache.heads(), rows, columns});
  float* const results = result.values<float>().data();
  parallel_for(cache.heads(), 1, [&](int64_t begin, int64_t end) {
    std::vector<float> sums(static_cast<size_t>(rows * padded));
    for (int64_t head = begin; head < end; ++head) {
      std::ranges::fill(sums, 0.0F);
      const float* const from = a.values<float>().data() + head * rows * depth;
      for (int64_t k = 0; k < depth; k += kDepth) {
        add_product({.a = from + k,
                     .a_row = depth,
                     .a_column = 1,
                     .b = cache.head(head) + k * cache.stride(),
                     .b_stride = cache.stride(),
                     .c = sums.data(),
                     .c_stride = padded,
                     .rows = rows,
                     .depth = std::min(kDepth, depth - k),
                     .column_begin = 0,
                     .column_end = padded});
      }
      for (int64_t row = 0; row < rows; ++row)
        std::copy_n(sums.data() + row * padded, columns, results + (head * rows + row) * columns);
    }
  });
  return result;
}

/// The last token of [1, tokens, size].
Flow last_token(const Flow& flow) {
  Flow last = flow;
  const Shape& shape = flow.tensor.shape();
  const Tensor tokens = flow.tensor.reshaped({shape[1], shape[2]});
  last.tensor = tokens.rows(shape[1] - 1, shape[1]).reshaped({1, 1, shape[2]});
  return last;
}

/// The rows of all sequences, behind each other.
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
  const Tensor joined = joined_rows(inputs);
  Tensor sums(DType::kFloat32, {joined.dim(0), linear.stride()});
  linear.sums(joined.values<float>().data(), joined.dim(0), sums.values<float>().data());
  return parted_rows(sums, step.outputs_of_linear, inputs);
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

std::shared_ptr<const PackedLinear> packed_linear(const Node& node) {
  std::optional<Tensor> weight;
  std::optional<Tensor> bias;
  for (const auto& [name, tensor] : rounded_parameters(node)) (name == "weight" ? weight : bias) = tensor;
  return std::make_shared<const PackedLinear>(*weight, bias);
}

}  // namespace

struct Decoder::Compiled {
  std::unique_ptr<ReferencePlan> plan;
  std::vector<DecoderStep> steps;
  std::vector<CachedTensor::Kind> caches;
  size_t places = 0;
  size_t head = 0;  // the step that gives logits
  int64_t vocabulary = 0;
  int64_t embedded = 0;  // rows of the table of tokens
  int64_t weight_bytes = 0;

  /// What a run knows of one sequence.
  struct Sequence {
    SequenceCache::Contents* cache;
    std::span<const int64_t> tokens;
    int64_t total() const { return cache->size + static_cast<int64_t>(tokens.size()); }
  };

  explicit Compiled(Graph graph);
  void add_steps(const DecoderLayers& layers);
  void note_whole_reads();
  void check();
  std::vector<Tensor> run(std::span<const Sequence> sequences, WantedLogits wanted) const;
  Flow input_of(const Node& node, const Sequence& sequence) const;
  Flows taken(const DecoderStep& step, const std::vector<Flows>& places, size_t sequence) const;
  Flow cached(const DecoderStep& step, Flow now, const Sequence& sequence) const;
  std::vector<Flows> results(const DecoderStep& step, std::span<const Sequence> sequences,
                             const std::vector<Flows>& places, bool last_only) const;
};

Decoder::Compiled::Compiled(Graph graph) {
  std::mutex mutex;
  DecoderLayers layers;
  plan = reference_plan(std::move(graph), [&](ReferenceStep& step) {
    DecoderLayer layer;
    if (is_plain_linear(step)) {
      layer.linear = packed_linear(*step.node);
    } else {
      layer.on_codes = take_row_layer(step);
      if (layer.on_codes == nullptr) return false;
    }
    const std::lock_guard lock(mutex);
    layers.emplace(step.node->name, std::move(layer));
    return true;
  });
  add_steps(layers);
  check();
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
    } else if (kind) {
      step.kind = StepKind::kCache;
      step.cache = caches.size();
      cache_of.emplace(node.name, caches.size());
      caches.push_back(*kind);
    } else if (is_plain_product(reference) && !cache_of.contains(node.inputs[0].node) &&
               cache_of.contains(node.inputs[1].node)) {
      step.kind = StepKind::kCacheProduct;
      step.cache = cache_of.at(node.inputs[1].node);
    }
    if (trait<WeightedSum>(node) != nullptr) head = steps.size();
    if (reference.role != OperatorRole::kOutput) {
      for (size_t i = 0; i < result_count(node); ++i) place_of.emplace(value_name(node.name, i), places++);
    }
    steps.push_back(std::move(step));
  }
  note_whole_reads();
}

void Decoder::Compiled::note_whole_reads() {
  std::map<std::string, DecoderStep*, std::less<>> cache_steps;
  for (DecoderStep& step : steps) {
    const Node& node = *step.reference->node;
    if (step.kind == StepKind::kCache) cache_steps.emplace(node.name, &step);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const auto read = cache_steps.find(node.inputs[i].node);
      const bool in_place = step.kind == StepKind::kCacheProduct && i == 1;
      if (read != cache_steps.end() && !in_place && read->first != node.name)
        read->second->is_read_whole = true;
    }
  }
}

void Decoder::Compiled::check() {
  const Graph& graph = plan->graph;
  const Node* const table = graph.find("embed_tokens");
  const bool has_inputs = graph.input_types().contains(kTokensInput) &&
                          graph.input_types().contains(kMaskInput) && graph.input_types().size() == 2;
  if (!has_inputs || table == nullptr || caches.empty() ||
      trait<WeightedSum>(*steps[head].reference->node) == nullptr)
    fail(
        "graph \"{}\": no causal language model: expected inputs {} and {}, and nodes that keep keys and "
        "values",
        graph.name(), kTokensInput, kMaskInput);
  embedded = table->find_parameter("weight")->tensor.dim(0);
  vocabulary = steps[head].reference->node->find_parameter("weight")->tensor.dim(0);
}

Flow Decoder::Compiled::input_of(const Node& node, const Sequence& sequence) const {
  const auto count = std::ssize(sequence.tokens);
  if (node.name == kTokensInput) return {Tensor::from<int64_t>({1, count}, sequence.tokens)};
  Tensor mask(DType::kInt64, {1, sequence.total()});
  std::ranges::fill(mask.values<int64_t>(), 1);
  return {std::move(mask)};
}

Flows Decoder::Compiled::taken(const DecoderStep& step, const std::vector<Flows>& values,
                               size_t sequence) const {
  const Node& node = *step.reference->node;
  Flows inputs;
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    if (step.inputs[i] == kNowhere) {
      inputs.push_back(constant_flow(node.inputs[i]));
    } else {
      inputs.push_back(converted(node, values[step.inputs[i]][sequence], step.reference->inputs[i]));
    }
  }
  return inputs;
}

/// What is new goes into the cache, where products read it; others get all of it.
Flow Decoder::Compiled::cached(const DecoderStep& step, Flow now, const Sequence& sequence) const {
  CachedTensor& cache = sequence.cache->tensors[step.cache];
  cache.write(now.tensor, sequence.cache->size);
  if (step.is_read_whole) now.tensor = cache.first(sequence.total());
  return now;
}

/// The results of one step, for each of them those of all sequences.
std::vector<Flows> Decoder::Compiled::results(const DecoderStep& step, std::span<const Sequence> sequences,
                                              const std::vector<Flows>& values, bool last_only) const {
  std::vector<Flows> inputs;
  for (size_t s = 0; s < sequences.size(); ++s) {
    inputs.push_back(taken(step, values, s));
    if (last_only) inputs.back().front() = last_token(inputs.back().front());
  }
  if (step.kind == StepKind::kLinear || step.kind == StepKind::kCodeLinear) {
    Flows rows;
    for (const Flows& of_sequence : inputs) rows.push_back(of_sequence.front());
    return {step.kind == StepKind::kLinear ? linear_results(step, rows) : code_results(step, rows)};
  }
  std::vector<Flows> results;
  for (size_t s = 0; s < sequences.size(); ++s) {
    Flows of_sequence;
    if (step.reference->role == OperatorRole::kInput) {
      of_sequence = {input_of(*step.reference->node, sequences[s])};
    } else if (step.kind == StepKind::kCacheProduct) {
      const CachedTensor& cache = sequences[s].cache->tensors[step.cache];
      of_sequence = {{cache_product(inputs[s][0].tensor, cache, sequences[s].total())}};
    } else {
      of_sequence = reference_results(*step.reference, inputs[s], plan->in_float.get());
    }
    if (step.kind == StepKind::kCache) of_sequence[0] = cached(step, std::move(of_sequence[0]), sequences[s]);
    results.resize(of_sequence.size());
    for (size_t i = 0; i < of_sequence.size(); ++i) results[i].push_back(std::move(of_sequence[i]));
  }
  return results;
}

std::vector<Tensor> Decoder::Compiled::run(std::span<const Sequence> sequences, WantedLogits wanted) const {
  std::vector<Flows> values(places);
  for (size_t i = 0; i < steps.size(); ++i) {
    const DecoderStep& step = steps[i];
    if (step.reference->role == OperatorRole::kOutput) break;
    const bool last_only = i == head && wanted == WantedLogits::kOfLastToken;
    std::vector<Flows> of_step = results(step, sequences, values, last_only);
    for (size_t r = 0; r < of_step.size(); ++r) values[step.output + r] = std::move(of_step[r]);
    for (const size_t place : step.last_reads) values[place].clear();
  }
  std::vector<Tensor> logits;
  for (size_t s = 0; s < sequences.size(); ++s) {
    const Tensor of_tokens = as_values(taken(steps.back(), values, s).front());
    logits.push_back(of_tokens.reshaped({of_tokens.dim(1), of_tokens.dim(2)}));
  }
  return logits;
}

Decoder::Decoder(Graph graph) : compiled_(std::make_unique<const Compiled>(std::move(graph))) {}
Decoder::~Decoder() = default;
Decoder::Decoder(Decoder&&) noexcept = default;

SequenceCache Decoder::start() const {
  auto contents = std::make_unique<SequenceCache::Contents>();
  for (const CachedTensor::Kind kind : compiled_->caches) contents->tensors.emplace_back(kind);
  return SequenceCache(std::move(contents));
}

std::vector<Tensor> Decoder::run(std::span<const DecoderInput> inputs, WantedLogits wanted) const {
  std::vector<Compiled::Sequence> sequences;
  for (const DecoderInput& input : inputs) {
    if (input.tokens.empty()) fail("no tokens are put behind a sequence");
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

int64_t Decoder::weight_bytes() const { return compiled_->weight_bytes; }

}  // namespace detent
