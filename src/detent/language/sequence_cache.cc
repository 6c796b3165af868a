#include "detent/language/sequence_cache.h"

#include "detent/core/error.h"

namespace detent {

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
  for (CachedTensor& tensor : contents_->tensors) tensor.truncate(size);
}

}  // namespace detent
