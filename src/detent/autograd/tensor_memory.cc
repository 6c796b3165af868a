#include "detent/autograd/tensor_memory.h"

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>
#include <torch/version.h>

#include <new>

#include "detent/core/block_cache.h"
#include "detent/core/process_resources.h"

namespace detent {
namespace {

/// Never destroyed: tensors may outlive what is. The first call decides on `spare`.
BlockCache& torch_blocks(size_t spare = kSpareForTraining) {
  static auto* const cache = new BlockCache(spare);
  return *cache;
}

class CachingAllocator final : public c10::Allocator {
 public:
#if TORCH_VERSION_MAJOR < 2
  c10::DataPtr allocate(size_t bytes) const override{
#else
  void copy_data(void* target, const void* source, size_t bytes) const override {
    default_copy_data(target, source, bytes);
  }
  c10::DataPtr allocate(size_t bytes) override {
#endif
      void* data = bytes == 0 ? nullptr : take(bytes);
  return {data, data, &give_back, c10::Device(c10::DeviceType::CPU)};
} c10::DeleterFnPtr raw_deleter() const override {
  return &give_back;
}

private:
static void* take(size_t bytes) {
  try {
    return torch_blocks().take(bytes);
  } catch (const std::bad_alloc&) {
    TORCH_CHECK(false, "no memory for a tensor of ", bytes, " bytes");
  }
}
static void give_back(void* data) { torch_blocks().give_back(data); }
};  // namespace

}  // namespace detent

void use_block_cache_for_tensors([[maybe_unused]] size_t spare) {
#ifndef __SANITIZE_ADDRESS__  // it watches the blocks of malloc
  torch_blocks(spare);
  [[maybe_unused]] static CachingAllocator* const allocator = [] {
    auto* created = new CachingAllocator;
    c10::SetCPUAllocator(created, 1);  // above libtorch's own
    return created;
  }();
#endif
}

void give_back_idle_tensor_memory() { torch_blocks().give_back_to_system(); }

}  // namespace detent
