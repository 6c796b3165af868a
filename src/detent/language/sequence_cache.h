#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/language/decoder.h"
#include "detent/language/known_moves.h"

namespace detent {

/// What one cache node has given of the tokens of a sequence: [1, heads, size, tokens] of keys, or [1, heads,
/// tokens, size] of values. Words of 4 bytes, float32 or codes. Rows lie `stride` words apart, a multiple of
/// what products ask for; words behind the tokens are finite.
class CachedTensor {
 public:
  enum class Kind { kKeys, kValues };

  explicit CachedTensor(Kind kind) : kind_(kind) {}

  Kind kind() const { return kind_; }
  DType dtype() const { return dtype_; }
  int64_t heads() const { return heads_; }
  int64_t size() const { return size_; }
  int64_t byte_size() const { return static_cast<int64_t>(words_.byte_size()); }

  /// What so many tokens of a node take whose result for one token has this shape.
  static int64_t bytes_for(Kind kind, const Shape& of_token, int64_t tokens);

  /// Writes tokens [from, from + tokens of the tensor), growing where that is needed.
  void write(const Tensor& tensor, int64_t from);
  /// A copy of the first tokens, without gaps.
  Tensor first(int64_t tokens) const;

  /// Row 0 of a head: keys have `size` rows of tokens, values a row of `size` for each token.
  const float* head(int64_t index) const { return words_.values<float>().data() + index * head_words(); }
  /// The same of codes.
  const int32_t* codes(int64_t index) const {
    return reinterpret_cast<const int32_t*>(words_.bytes().data()) + index * head_words();
  }
  int64_t stride() const { return kind_ == Kind::kKeys ? capacity_ : padded_size_; }

 private:
  int64_t head_words() const { return kind_ == Kind::kKeys ? size_ * capacity_ : capacity_ * padded_size_; }
  void grow(int64_t tokens);

  Kind kind_;
  DType dtype_ = DType::kFloat32;
  int64_t heads_ = 0;
  int64_t size_ = 0;         // elements of a head
  int64_t padded_size_ = 0;  // filled up for products
  int64_t capacity_ = 0;     // tokens
  Tensor words_;             // float32, be they codes
};

/// What a node keeps, if it is one that the decoder keeps results of.
std::optional<CachedTensor::Kind> cache_kind(const Node& node);

struct SequenceCache::Contents {
  int64_t size = 0;
  std::vector<CachedTensor> tensors;  // in the order of the cache nodes
  std::vector<KnownMove> moves;       // by step
};

}  // namespace detent
