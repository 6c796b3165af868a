#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/graph/graph.h"

namespace detent {

struct ReferencePlan;

/// Memory of a decoder's runs.
struct DecoderLoad {
  int64_t sequences = 1;
  int64_t tokens = 0;       // of each, when all has been run
  int64_t at_once = 0;      // that a run puts after each, at most
  bool all_logits = false;  // of each of them, or of the last
};

/// Bytes, at most.
struct DecoderMemory {
  int64_t weights = 0;
  int64_t cache = 0;
  int64_t buffers = 0;  // values between nodes

  int64_t total() const { return weights + cache + buffers; }
};

/// Tensors that the nodes of the plan keep, and copies of those that are rounded when they are first used.
int64_t parameter_bytes(const ReferencePlan& plan);

/// `head` is the step that gives logits. Values that are alive at the same time, and what a step takes
/// besides: its inputs in other types. All of them grow with the tokens of a run at least in proportion, so
/// that fewer at once take their share of what all would.
int64_t buffer_bytes(const ReferencePlan& plan, size_t head, const DecoderLoad& load);

/// Keys and values of the tokens of one sequence so far, in pages of tokens. It may be moved, not copied.
class SequenceCache {
 public:
  ~SequenceCache();
  SequenceCache(SequenceCache&&) noexcept;
  SequenceCache& operator=(SequenceCache&&) noexcept;

  /// Number of tokens.
  int64_t size() const;
  /// Its size in bytes.
  int64_t byte_size() const;
  /// Truncates it to the first tokens.
  void truncate(int64_t size);

 private:
  friend class Decoder;
  struct Contents;
  explicit SequenceCache(std::unique_ptr<Contents> contents);
  std::unique_ptr<Contents> contents_;
};

/// Tokens to append to a sequence.
struct DecoderInput {
  SequenceCache* cache;
  std::span<const int64_t> tokens;  // at least one
};

enum class WantedLogits { kOfLastToken, kOfAllTokens };

class DeferredWeights;

/// Runs the graph of a causal language model (build_language_graph, or such a graph quantized by passes)
/// token by token. The logits of a token are the same bits however its sequence is cut into calls, whatever
/// sequences run beside it, and with any number of threads.
class Decoder {
 public:
  /// Throws Error where the graph is none that build_language_graph gives: an encoder, another network. Of
  /// deferred weights the graph has the shapes.
  explicit Decoder(Graph graph, std::shared_ptr<const DeferredWeights> weights = nullptr);
  ~Decoder();
  Decoder(Decoder&&) noexcept;

  /// An empty sequence.
  SequenceCache start() const;
  /// Appends the tokens of each sequence; a cache may be there once. For each: logits [1, vocabulary] after
  /// its last token, or [tokens, vocabulary]. Throws Error on a token that the vocabulary does not have; the
  /// caches then stay as they were.
  std::vector<Tensor> run(std::span<const DecoderInput> inputs,
                          WantedLogits wanted = WantedLogits::kOfLastToken) const;
  /// The same for one sequence.
  Tensor run(SequenceCache& cache, std::span<const int64_t> tokens,
             WantedLogits wanted = WantedLogits::kOfLastToken) const;

  int64_t vocabulary() const;
  /// Tokens of the longest sequence that the network was made for; 0: its graph does not say.
  int64_t context() const;
  /// Rows of its table of positions, beyond which no sequence goes; 0: it has none.
  int64_t positions() const;
  /// Throws Error where the table of positions has fewer rows.
  void expect_positions(int64_t tokens) const;
  /// Upper bound of a run's memory in bytes, weights included.
  DecoderMemory memory(const DecoderLoad& load) const;
  /// Bytes of the packed weights.
  int64_t weight_bytes() const;

 private:
  struct Compiled;
  std::unique_ptr<const Compiled> compiled_;
};

}  // namespace detent
