#include "detent/files/scratch.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "detent/core/convert.h"
#include "detent/core/error.h"
#include "detent/files/unfinished_file.h"

namespace detent {
namespace {

/// Memory of a file that has no name any more.
class NamelessMapping {
 public:
  NamelessMapping(const std::filesystem::path& directory, size_t size) : size_(size) {
    const int descriptor = create_nameless_file(directory);
    if (descriptor < 0) fail_with(errno, directory);
    // Reserved now: a mapping that finds the disk full later is killed, not told.
    const int status = posix_fallocate(descriptor, 0, static_cast<off_t>(size));
    data_ = status == 0 ? mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0) : MAP_FAILED;
    const int reason = status == 0 ? errno : status;
    close(descriptor);
    if (data_ == MAP_FAILED) fail_with(reason, directory);
  }
  ~NamelessMapping() { munmap(data_, size_); }
  NamelessMapping(const NamelessMapping&) = delete;
  NamelessMapping& operator=(const NamelessMapping&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  [[noreturn]] void fail_with(int reason, const std::filesystem::path& directory) const {
    fail("cannot make a temporary file of {} bytes in {}: {}", size_, directory.string(),
         std::strerror(reason));
  }

  size_t size_;
  void* data_ = nullptr;
};

/// About the pages that the tensor has for itself.
void advise(const Tensor& tensor, int advice) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<uintptr_t>(tensor.bytes().data()) + page - 1) / page * page;
  const auto end = reinterpret_cast<uintptr_t>(tensor.bytes().data() + tensor.byte_size()) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, advice);
}

}  // namespace

Tensor Scratch::tensor(DType dtype, const Shape& shape) const {
  const size_t size = static_cast<size_t>(element_count(shape)) * dtype_size(dtype);
  if (size <= bytes_in_memory_) return {dtype, shape};
  const auto mapping = std::make_shared<const NamelessMapping>(directory_.empty() ? "." : directory_, size);
  return Tensor::borrow(dtype, shape, mapping->data(), mapping);
}

Tensor Scratch::to_float32(const Tensor& source) const {
  constexpr int64_t kChunk = int64_t{1} << 20;
  if (source.dtype() == DType::kFloat32) return source;
  Tensor result = tensor(DType::kFloat32, source.shape());
  const Tensor flat = source.reshaped({source.numel()});
  for (int64_t begin = 0; begin < flat.numel(); begin += kChunk) {
    const Tensor chunk = detent::to_float32(flat.rows(begin, std::min(begin + kChunk, flat.numel())));
    std::ranges::copy(chunk.values<float>(), result.values<float>().begin() + begin);
  }
  return result;
}

void page_out(const Tensor& tensor) {
  // Only advice: where the kernel does not take it, nothing is lost.
  advise(tensor, MADV_PAGEOUT);
}

void unmap_pages(const Tensor& tensor) { advise(tensor, MADV_DONTNEED); }

}  // namespace detent
