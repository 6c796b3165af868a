#include <array>

#include "detent/core/error.h"
#include "detent/datasets/tar.h"

#include "memory_file.h"

/// No member leads out of the folder, and together they unpack to no more than was allowed.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr uint64_t kLimit = 1 << 20;
  const detent::MemoryFile file(data, size);
  try {
    detent::TarReader reader(file.path(), kLimit);
    detent::TarMember member;
    std::array<std::byte, 4096> buffer{};
    uint64_t unpacked = 0;
    while (reader.next(member)) {
      for (const auto& part : std::filesystem::path(member.name))
        DETENT_CHECK(part != "..", "{}", member.name);
      while (const size_t read = reader.read(buffer)) unpacked += read;
      DETENT_CHECK(unpacked <= kLimit, "{} bytes", unpacked);
    }
  } catch (const detent::Error&) {
  }
  return 0;
}
