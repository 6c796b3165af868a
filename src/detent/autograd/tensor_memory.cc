#include "detent/autograd/tensor_memory.h"

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>
#include <torch/version.h>

#include <new>

#include "detent/core/block_cache.h"
#include "detent/core/process_resources.h"

namespace detent {
namespace {

/// Never destroyed: tensors may outlive other static variables.
BlockCache& torch_blocks() {
  // A step of training mnist_cnn has 14 MiB in use at once, but blocks of more than 30 in all sizes.
  constexpr size_t kSpare = size_t{32} << 20;
  static auto* const cache = new BlockCache(kSpare);
  return *cache;
}

void give_back(void* data) { torch_blocks().give_back(data); }

c10::DataPtr take(size_t bytes) {
  void* data = nullptr;
  try {
    if (bytes > 0) data = torch_blocks().take(bytes);
  } catch (const std::bad_alloc&) {
    TORCH_CHECK(false, "no memory for a tensor of ", bytes, " bytes");
  }
  return {data, data, &give_back, c10::Device(c10::DeviceType::CPU)};
}

class CachingAllocator final : public c10::Allocator {
 public:
#if TORCH_VERSION_MAJOR < 2
  c10::DataPtr allocate(size_t bytes) const override { return take(bytes); }
#else
  c10::DataPtr allocate(size_t bytes) override { return take(bytes); }
  void copy_data(void* target, const void* source, size_t bytes) const override {
    default_copy_data(target, source, bytes);
  }
#endif
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
};

}  // namespace

void use_block_cache_for_tensors() {
#ifndef __SANITIZE_ADDRESS__  // it watches the blocks of malloc
  [[maybe_unused]] static CachingAllocator* const allocator = [] {
    auto* created = new CachingAllocator;
    c10::SetCPUAllocator(created, 1);  // above libtorch's own
    return created;
  }();
#endif
}

void give_back_idle_tensor_memory() { torch_blocks().give_back_to_system(); }

}  // namespace detent
