#include "detent/core/error.h"
#include "detent/checkpoints/pickle.h"
#include "detent/checkpoints/torch_checkpoint.h"
#include "detent/files/zip.h"

#include "memory_file.h"

namespace {

void read(const std::filesystem::path& path) {
  try {
    // Every byte that a tensor claims must be readable.
    for (const auto& [name, tensor] : detent::read_state_dict(path)) tensor.clone();
  } catch (const detent::Error&) {
  }
}

}  // namespace

/// The bytes as a checkpoint, and as the pickle of one: random changes rarely keep the CRC of an entry.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const detent::MemoryFile file(data, size);
  read(file.path());
  static const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("checkpoint_fuzz." + std::to_string(getpid()));
  detent::ZipWriter zip(path);
  zip.add("fuzz/data.pkl", std::as_bytes(std::span(data, size)));
  zip.add("fuzz/data/0", std::string(64, '\1'));
  zip.commit();
  read(path);
  std::filesystem::remove(path);
  return 0;
}
