#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/graph/graph.h"
#include "detent/inference/node_form.h"
#include "detent/language/cache_codec.h"

namespace detent {

/// Pool of pages shared by caches, in large blocks so that they do not fragment the heap. Thread-safe.
class PagePool : public std::enable_shared_from_this<PagePool> {
 public:
  /// This many zeros; freed with the last copy of the tensor.
  Tensor page(int64_t bytes);

 private:
  void give_back(int64_t bytes, std::byte* page);

  std::mutex mutex_;
  std::vector<Tensor> blocks_;
  std::map<int64_t, std::vector<std::byte*>> free_;  // by size
};

/// Results of one cache node for the tokens of a sequence: [1, heads, size, tokens] of keys, or [1, heads,
/// tokens, size] of values, in pages of tokens, each head's part of a page by itself: rows of keys are
/// elements and columns tokens, rows of values are tokens and columns elements, filled up for products. Words
/// of 4 bytes, float32 or codes, or what a CacheCodec makes of a token's part of a head.
class CachedTensor {
 public:
  enum class Kind { kKeys, kValues };
  static constexpr int64_t kPageTokens = 64;

  /// Without tokens, of a node whose result for one token has this shape.
  CachedTensor(Kind kind, const Shape& of_token, std::shared_ptr<PagePool> pool,
               std::shared_ptr<const CacheCodec> codec = nullptr);

  Kind kind() const { return kind_; }
  int64_t heads() const { return heads_; }
  int64_t size() const { return size_; }
  const CacheCodec* codec() const { return codec_.get(); }
  int64_t pages() const { return std::ssize(pages_); }
  int64_t byte_size() const { return pages() * page_bytes(); }
  /// Bytes of this many tokens.
  int64_t bytes_for(int64_t tokens) const;

  /// Writes tokens [from, from + tokens of the tensor), with more pages where they are needed.
  void write(const Tensor& tensor, int64_t from);
  /// Frees the pages after the first tokens.
  void truncate(int64_t tokens);
  /// A copy of the first tokens, without gaps. Not of what a codec keeps.
  Tensor first(int64_t tokens) const;

  /// A copy of these tokens alone, of values.
  Tensor rows(std::span<const int64_t> tokens) const;

  /// A head's part of a page; finite after the tokens too.
  struct Part {
    const std::byte* elements;  // words [rows, columns], or bytes, two rows in one where they are nibbles
    const float* scales;        // of each token; null where there are none
    const float* zero_points;
    int64_t rows;
    int64_t columns;
  };
  Part part(int64_t page, int64_t head) const;

 private:
  bool are_keys() const { return kind_ == Kind::kKeys; }
  int64_t rows() const { return are_keys() ? size_ : kPageTokens; }
  int64_t columns() const;
  int64_t element_bytes() const;  // of a head in a page
  int64_t head_bytes() const;
  int64_t page_bytes() const { return heads_ * head_bytes(); }
  std::byte* head_of(int64_t page, int64_t head) {
    return pages_[static_cast<size_t>(page)].bytes().data() + head * head_bytes();
  }
  void write_words(const Tensor& tensor, int64_t from, int64_t tokens);
  void write_coded(const Tensor& tensor, int64_t from, int64_t tokens);
  void put(std::byte* head, int64_t row, int64_t column, int8_t byte) const;

  Kind kind_;
  DType dtype_ = DType::kFloat32;
  int64_t heads_;
  int64_t size_;  // elements of a head
  std::shared_ptr<const CacheCodec> codec_;
  std::shared_ptr<PagePool> pool_;
  std::vector<Tensor> pages_;  // of bytes
};

/// Kind of cache of a node, if the decoder keeps its results.
std::optional<CachedTensor::Kind> cache_kind(const Node& node);

/// Rows of bytes, two rows in one where they are nibbles.
struct PackedRows {
  const int8_t* bytes;
  bool are_nibbles;
  int64_t rows;
  int64_t columns;      // a multiple of 16
  const float* scales;  // of each row, or of each column; null: none, as of zero points
  const float* zero_points;
  bool are_of_rows;
  const float* table;  // null: integers
  int32_t offset;      // of codes
};

// Rows [1, heads, rows, depth] of each head times the head of a cache, whose first `tokens` count. What a
// codec keeps is widened a page at a time.

/// In float32, as kernels/sums.h states.
Tensor cache_product(const Tensor& a, const CachedTensor& cache, int64_t tokens);
/// int32 sums over codes, those of code_product. Throws Error naming the node where they could exceed 32
/// bits.
Tensor cache_code_product(const ProductForm& form, const Node& node, const Tensor& a,
                          const CachedTensor& cache, int64_t tokens);

}  // namespace detent
