#include "detent/language/sequence_cache.h"

#include <algorithm>
#include <cstring>

#include "detent/core/error.h"
#include "detent/core/product.h"
#include "detent/graph/traits.h"

namespace detent {
namespace {

constexpr int64_t kLeastCapacity = 64;
constexpr size_t kWord = sizeof(float);

int64_t padded(int64_t size) {
  return (size + FloatProduct::kPadding - 1) / FloatProduct::kPadding * FloatProduct::kPadding;
}

void copy_words(const std::byte* from, float* to, int64_t count) {
  std::memcpy(to, from, static_cast<size_t>(count) * kWord);
}

int64_t capacity_for(int64_t tokens) {
  int64_t capacity = kLeastCapacity;
  while (capacity < tokens) capacity *= 2;
  return capacity;
}

}  // namespace

std::optional<CachedTensor::Kind> cache_kind(const Node& node) {
  if (!is_view(node) || node.inputs.size() != 1) return std::nullopt;
  if (node.target.ends_with(".key_cache")) return CachedTensor::Kind::kKeys;
  if (node.target.ends_with(".value_cache")) return CachedTensor::Kind::kValues;
  return std::nullopt;
}

int64_t CachedTensor::bytes_for(Kind kind, const Shape& of_token, int64_t tokens) {
  CachedTensor tensor(kind);
  tensor.heads_ = of_token[1];
  tensor.size_ = kind == Kind::kKeys ? of_token[2] : of_token[3];
  tensor.padded_size_ = padded(tensor.size_);
  tensor.capacity_ = capacity_for(tokens);
  return tensor.heads_ * tensor.head_words() * static_cast<int64_t>(kWord);
}

void CachedTensor::grow(int64_t tokens) {
  if (tokens <= capacity_) return;
  CachedTensor larger(kind_);
  larger.heads_ = heads_;
  larger.size_ = size_;
  larger.padded_size_ = padded_size_;
  larger.capacity_ = capacity_for(tokens);
  larger.words_ = Tensor(DType::kFloat32, {heads_ * larger.head_words()});
  const int64_t rows = kind_ == Kind::kKeys ? size_ : capacity_;
  for (int64_t head = 0; head < heads_ && capacity_ > 0; ++head) {
    float* const to = larger.words_.values<float>().data() + head * larger.head_words();
    for (int64_t row = 0; row < rows; ++row)
      std::memcpy(to + row * larger.stride(), this->head(head) + row * stride(),
                  static_cast<size_t>(stride()) * kWord);
  }
  capacity_ = larger.capacity_;
  words_ = std::move(larger.words_);
}

void CachedTensor::write(const Tensor& tensor, int64_t from) {
  const bool are_keys = kind_ == Kind::kKeys;
  DETENT_CHECK(tensor.rank() == 4 && tensor.dim(0) == 1 && dtype_size(tensor.dtype()) == kWord,
               "{} of shape {}", dtype_name(tensor.dtype()), shape_text(tensor.shape()));
  const int64_t tokens = tensor.dim(are_keys ? 3 : 2);
  if (heads_ == 0) {
    heads_ = tensor.dim(1);
    size_ = tensor.dim(are_keys ? 2 : 3);
    padded_size_ = padded(size_);
    dtype_ = tensor.dtype();
  }
  DETENT_CHECK(tensor.dim(1) == heads_ && tensor.dtype() == dtype_, "{} of shape {}",
               dtype_name(tensor.dtype()), shape_text(tensor.shape()));
  grow(from + tokens);
  const std::byte* source = tensor.bytes().data();
  for (int64_t head = 0; head < heads_; ++head) {
    float* const to = words_.values<float>().data() + head * head_words();
    const int64_t rows = are_keys ? size_ : tokens;
    const int64_t count = are_keys ? tokens : size_;
    for (int64_t row = 0; row < rows; ++row, source += static_cast<size_t>(count) * kWord)
      copy_words(source, are_keys ? to + row * capacity_ + from : to + (from + row) * padded_size_, count);
  }
}

Tensor CachedTensor::first(int64_t tokens) const {
  const bool are_keys = kind_ == Kind::kKeys;
  const int64_t rows = are_keys ? size_ : tokens;
  const int64_t count = are_keys ? tokens : size_;
  Tensor result(dtype_, {1, heads_, rows, count});
  std::byte* to = result.bytes().data();
  const size_t bytes = static_cast<size_t>(count) * kWord;
  for (int64_t head = 0; head < heads_; ++head) {
    for (int64_t row = 0; row < rows; ++row, to += bytes)
      std::memcpy(to, this->head(head) + row * stride(), bytes);
  }
  return result;
}

SequenceCache::SequenceCache(std::unique_ptr<Contents> contents) : contents_(std::move(contents)) {}
SequenceCache::~SequenceCache() = default;
SequenceCache::SequenceCache(SequenceCache&&) noexcept = default;
SequenceCache& SequenceCache::operator=(SequenceCache&&) noexcept = default;

int64_t SequenceCache::size() const { return contents_->size; }

int64_t SequenceCache::byte_size() const {
  int64_t bytes = 0;
  for (const CachedTensor& tensor : contents_->tensors) bytes += tensor.byte_size();
  return bytes;
}

void SequenceCache::truncate(int64_t size) {
  DETENT_CHECK(size >= 0 && size <= contents_->size, "{} of {} tokens", size, contents_->size);
  contents_->size = size;
}

}  // namespace detent
