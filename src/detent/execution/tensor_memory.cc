#include "detent/execution/tensor_memory.h"

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <cstdint>
#include <cstdlib>

namespace detent {
namespace {

/// What malloc gave stands before the tensor's first byte.
class MallocAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) const override {
    void* data = bytes == 0 ? nullptr : take(bytes);
    return {data, data, &give_back, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }

 private:
  static constexpr size_t kAlignment = 64;

  static void* take(size_t bytes) {
    constexpr size_t kMore = sizeof(void*) + kAlignment - 1;
    void* block = bytes <= SIZE_MAX - kMore ? std::malloc(bytes + kMore) : nullptr;
    TORCH_CHECK(block != nullptr, "no memory for a tensor of ", bytes, " bytes");
    const uintptr_t first = reinterpret_cast<uintptr_t>(block) + kMore;
    void* data = reinterpret_cast<void*>(first / kAlignment * kAlignment);
    static_cast<void**>(data)[-1] = block;
    return data;
  }
  static void give_back(void* data) {
    if (data != nullptr) std::free(static_cast<void**>(data)[-1]);
  }
};

}  // namespace

void use_malloc_for_tensors() {
  // Never destroyed: tensors may outlive what is.
  [[maybe_unused]] static const MallocAllocator* const allocator = [] {
    auto* created = new MallocAllocator;
    c10::SetCPUAllocator(created, 1);  // above libtorch's own
    return created;
  }();
}

}  // namespace detent
