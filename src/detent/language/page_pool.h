#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "detent/core/tensor.h"

namespace detent {

/// Memory of pages that caches share: what one gives back is taken by the next. Pages of one size come from
/// large blocks, so that they do not lie between what comes and goes in the heap. Several threads may use it.
class PagePool : public std::enable_shared_from_this<PagePool> {
 public:
  /// So many zeros; given back when the last copy of the tensor is gone.
  Tensor page(int64_t bytes);

 private:
  void give_back(int64_t bytes, std::byte* page);

  std::mutex mutex_;
  std::vector<Tensor> blocks_;
  std::map<int64_t, std::vector<std::byte*>> free_;  // by size
};

}  // namespace detent
