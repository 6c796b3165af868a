#include "detent/language/cached_tensor.h"

#include <algorithm>
#include <cstring>

#include "detent/core/error.h"
#include "detent/graph/traits.h"
#include "detent/kernels/product.h"

namespace detent {

Tensor PagePool::page(int64_t bytes) {
  constexpr int64_t kBlockBytes = int64_t{1} << 18;
  std::byte* page = nullptr;
  {
    const std::lock_guard lock(mutex_);
    std::vector<std::byte*>& free = free_[bytes];
    if (free.empty()) {
      const int64_t count = std::max<int64_t>(1, kBlockBytes / bytes);
      blocks_.emplace_back(DType::kUInt8, Shape{count * bytes});
      for (int64_t i = count; i-- > 0;) free.push_back(blocks_.back().bytes().data() + i * bytes);
    }
    page = free.back();
    free.pop_back();
  }
  std::fill_n(page, bytes, std::byte{0});
  const std::shared_ptr<const void> owner(
      page, [pool = shared_from_this(), bytes](std::byte* given) { pool->give_back(bytes, given); });
  return Tensor::borrow(DType::kUInt8, {bytes}, page, owner);
}

void PagePool::give_back(int64_t bytes, std::byte* page) {
  const std::lock_guard lock(mutex_);
  free_[bytes].push_back(page);
}

namespace {

constexpr int64_t kWord = sizeof(float);

int64_t pages_for(int64_t tokens) {
  return (tokens + CachedTensor::kPageTokens - 1) / CachedTensor::kPageTokens;
}

/// [1, heads, size, tokens] or [1, heads, tokens, size] as rows [heads * tokens, size].
Tensor rows_of_tokens(const Tensor& tensor, bool are_keys) {
  const int64_t heads = tensor.dim(1);
  if (!are_keys) return tensor.reshaped({heads * tensor.dim(2), tensor.dim(3)});
  const int64_t size = tensor.dim(2);
  const int64_t tokens = tensor.dim(3);
  Tensor rows(tensor.dtype(), {heads * tokens, size});
  const std::byte* const from = tensor.bytes().data();
  std::byte* to = rows.bytes().data();
  for (int64_t head = 0; head < heads; ++head) {
    for (int64_t token = 0; token < tokens; ++token) {
      for (int64_t i = 0; i < size; ++i, to += kWord)
        std::memcpy(to, from + ((head * size + i) * tokens + token) * kWord, static_cast<size_t>(kWord));
    }
  }
  return rows;
}

}  // namespace

std::optional<CachedTensor::Kind> cache_kind(const Node& node) {
  if (!is_view(node) || node.inputs.size() != 1) return std::nullopt;
  if (node.target.ends_with(".key_cache")) return CachedTensor::Kind::kKeys;
  const bool has_values = node.target.ends_with(".value_cache") || node.target.ends_with(".state_cache");
  if (has_values) return CachedTensor::Kind::kValues;
  return std::nullopt;
}

CachedTensor::CachedTensor(Kind kind, const Shape& of_token, std::shared_ptr<PagePool> pool,
                           std::shared_ptr<const CacheCodec> codec)
    : kind_(kind),
      heads_(of_token.at(1)),
      size_(of_token.at(kind == Kind::kKeys ? 2 : 3)),
      codec_(std::move(codec)),
      pool_(std::move(pool)) {}

int64_t CachedTensor::columns() const {
  constexpr int64_t kPadding = FloatProduct::kPadding;
  static_assert(kPageTokens % kPadding == 0 && kPageTokens % 2 == 0);
  return are_keys() ? kPageTokens : (size_ + kPadding - 1) / kPadding * kPadding;
}

int64_t CachedTensor::element_bytes() const {
  if (codec_ == nullptr) return rows() * columns() * kWord;
  return (codec_->in_nibbles() ? (rows() + 1) / 2 : rows()) * columns();
}

int64_t CachedTensor::head_bytes() const {
  if (codec_ == nullptr) return element_bytes();
  const int numbers = (codec_->has_scales() ? 1 : 0) + (codec_->has_zero_points() ? 1 : 0);
  return element_bytes() + numbers * kPageTokens * kWord;
}

int64_t CachedTensor::bytes_for(int64_t tokens) const { return pages_for(tokens) * page_bytes(); }

CachedTensor::Part CachedTensor::part(int64_t page, int64_t head) const {
  const std::byte* const elements = pages_[static_cast<size_t>(page)].bytes().data() + head * head_bytes();
  Part part{elements, nullptr, nullptr, rows(), columns()};
  const auto* numbers = reinterpret_cast<const float*>(elements + element_bytes());
  if (codec_ != nullptr && codec_->has_scales()) {
    part.scales = numbers;
    numbers += kPageTokens;
  }
  if (codec_ != nullptr && codec_->has_zero_points()) part.zero_points = numbers;
  return part;
}

void CachedTensor::write(const Tensor& tensor, int64_t from) {
  DETENT_CHECK(tensor.rank() == 4 && tensor.dim(0) == 1 && tensor.dim(1) == heads_ &&
                   tensor.dim(are_keys() ? 2 : 3) == size_ && dtype_size(tensor.dtype()) == kWord,
               "{} of shape {}", dtype_name(tensor.dtype()), shape_text(tensor.shape()));
  const int64_t tokens = tensor.dim(are_keys() ? 3 : 2);
  while (pages() < pages_for(from + tokens)) pages_.push_back(pool_->page(page_bytes()));
  dtype_ = tensor.dtype();
  codec_ == nullptr ? write_words(tensor, from, tokens) : write_coded(tensor, from, tokens);
}

void CachedTensor::write_words(const Tensor& tensor, int64_t from, int64_t tokens) {
  const std::byte* const source = tensor.bytes().data();
  for (int64_t token = 0; token < tokens;) {
    const int64_t page = (from + token) / kPageTokens;
    const int64_t place = (from + token) % kPageTokens;
    const int64_t count = std::min(tokens - token, kPageTokens - place);
    for (int64_t head = 0; head < heads_; ++head) {
      std::byte* const to = head_of(page, head);
      // Rows of so many words each lie in both.
      const int64_t lines = are_keys() ? size_ : count;
      const auto bytes = static_cast<size_t>((are_keys() ? count : size_) * kWord);
      for (int64_t line = 0; line < lines; ++line) {
        const int64_t at =
            are_keys() ? (head * size_ + line) * tokens + token : (head * tokens + token + line) * size_;
        const int64_t target = are_keys() ? line * columns() + place : (place + line) * columns();
        std::memcpy(to + target * kWord, source + at * kWord, bytes);
      }
    }
    token += count;
  }
}

void CachedTensor::put(std::byte* head, int64_t row, int64_t column, int8_t byte) const {
  if (!codec_->in_nibbles()) {
    head[row * columns() + column] = static_cast<std::byte>(byte);
    return;
  }
  std::byte& pair = head[row / 2 * columns() + column];
  const auto nibble = static_cast<std::byte>(byte) & std::byte{15};
  pair = row % 2 == 0 ? (pair & std::byte{0xf0}) | nibble : (pair & std::byte{15}) | nibble << 4;
}

void CachedTensor::write_coded(const Tensor& tensor, int64_t from, int64_t tokens) {
  const CacheCodec::Rows rows = codec_->encoded(rows_of_tokens(tensor, are_keys()));
  const int8_t* bytes = rows.bytes.values<int8_t>().data();
  for (int64_t row = 0; row < heads_ * tokens; ++row) {
    const int64_t token = from + row % tokens;
    const int64_t place = token % kPageTokens;
    std::byte* const to = head_of(token / kPageTokens, row / tokens);
    for (int64_t i = 0; i < size_; ++i, ++bytes)
      are_keys() ? put(to, i, place, *bytes) : put(to, place, i, *bytes);
    auto* numbers = reinterpret_cast<float*>(to + element_bytes());
    if (codec_->has_scales()) {
      numbers[place] = rows.scales[static_cast<size_t>(row)];
      numbers += kPageTokens;
    }
    if (codec_->has_zero_points()) numbers[place] = rows.zero_points[static_cast<size_t>(row)];
  }
}

void CachedTensor::truncate(int64_t tokens) {
  if (pages_for(tokens) < pages()) pages_.resize(static_cast<size_t>(pages_for(tokens)));
}

Tensor CachedTensor::first(int64_t tokens) const {
  DETENT_CHECK(codec_ == nullptr, "what a codec of {} heads keeps", heads_);
  Tensor result(dtype_, are_keys() ? Shape{1, heads_, size_, tokens} : Shape{1, heads_, tokens, size_});
  std::byte* to = result.bytes().data();
  for (int64_t head = 0; head < heads_; ++head) {
    for (int64_t line = 0; line < (are_keys() ? size_ : tokens); ++line) {
      const int64_t of_line = are_keys() ? tokens : size_;
      for (int64_t i = 0; i < of_line;) {
        const int64_t token = are_keys() ? i : line;
        const int64_t count = are_keys() ? std::min(kPageTokens, tokens - i) : size_;
        const std::byte* const from = part(token / kPageTokens, head).elements;
        const int64_t row = are_keys() ? line : token % kPageTokens;
        std::memcpy(to, from + row * columns() * kWord, static_cast<size_t>(count * kWord));
        to += count * kWord;
        i += count;
      }
    }
  }
  return result;
}

Tensor CachedTensor::rows(std::span<const int64_t> tokens) const {
  DETENT_CHECK(codec_ == nullptr && !are_keys(), "rows of {} heads", heads_);
  Tensor result(dtype_, {1, heads_, std::ssize(tokens), size_});
  std::byte* to = result.bytes().data();
  for (int64_t head = 0; head < heads_; ++head) {
    for (const int64_t token : tokens) {
      DETENT_CHECK(token >= 0 && token / kPageTokens < pages(), "token {} of {} pages", token, pages());
      const std::byte* const from = part(token / kPageTokens, head).elements;
      std::memcpy(to, from + token % kPageTokens * columns() * kWord, static_cast<size_t>(size_ * kWord));
      to += size_ * kWord;
    }
  }
  return result;
}

}  // namespace detent
