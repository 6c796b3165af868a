// Readers of files: any bytes are refused, or read within bounds.
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <span>

#include "detent/checkpoints/gguf/gguf_file.h"
#include "detent/checkpoints/pickle.h"
#include "detent/checkpoints/torch_checkpoint.h"
#include "detent/core/error.h"
#include "detent/datasets/image.h"
#include "detent/datasets/sample_readers.h"
#include "detent/datasets/tar.h"
#include "detent/files/array_files.h"
#include "detent/files/safetensors.h"
#include "detent/files/zip.h"
#include "detent/graph/graph_parameters.h"
#include "detent/graph_files/graph_file.h"
#include "detent/graph_files/packed_tensors.h"

#include "memory_file.h"

namespace detent::fuzz {

int fuzz_npy(const uint8_t* data, size_t size) {
  const MemoryFile file(data, size);
  try {
    read_npy(file.path()).clone();
  } catch (const Error&) {
  }
  return 0;
}

int fuzz_safetensors(const uint8_t* data, size_t size) {
  const MemoryFile file(data, size);
  try {
    // Every byte that a tensor claims must be readable.
    for (const auto& [name, tensor] : read_safetensors(file.path()).tensors) tensor.clone();
  } catch (const Error&) {
  }
  return 0;
}

int fuzz_packed(const uint8_t* data, size_t size) {
  const MemoryFile file(data, size);
  try {
    const SafetensorsFile tensors = read_safetensors(file.path());
    for (const StoredTensor& tensor : unpack_tensors(tensors, "fuzz")) {
      stored_values(tensor, Scratch("/tmp"));
    }
  } catch (const Error&) {
  }
  return 0;
}

/// Any bytes as a saved graph: refused, or read as a graph that is the same after writing and reading it
/// again.
int fuzz_mz(const uint8_t* data, size_t size) {
  const MemoryFile file(data, size);
  try {
    const Graph graph = read_graph(file.path());
    const auto written =
        std::filesystem::temp_directory_path() / ("detent_mz_fuzz_" + std::to_string(getpid()));
    write_graph(written, graph);
    if (network_fingerprint(read_graph(written)) != network_fingerprint(graph)) std::abort();
  } catch (const Error&) {
  }
  return 0;
}

namespace {

void read_tensors(const std::filesystem::path& path) {
  try {
    // Every byte that a tensor claims must be readable.
    for (const auto& [name, tensor] : read_state_dict(path)) tensor.clone();
  } catch (const Error&) {
  }
}

}  // namespace

/// The bytes as a checkpoint, and as the pickle of one: random changes rarely keep the CRC of an entry.
int fuzz_checkpoint(const uint8_t* data, size_t size) {
  const MemoryFile file(data, size);
  read_tensors(file.path());
  static const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("checkpoint_fuzz." + std::to_string(getpid()));
  ZipWriter zip(path);
  zip.add("fuzz/data.pkl", std::as_bytes(std::span(data, size)));
  zip.add("fuzz/data/0", std::string(64, '\1'));
  zip.commit();
  read_tensors(path);
  std::filesystem::remove(path);
  return 0;
}

int fuzz_gguf(const uint8_t* data, size_t size) {
  const MemoryFile file(data, size);
  try {
    const GgufFile gguf = read_gguf(file.path());
    for (const GgufEntry& entry : gguf.metadata.entries()) {
      gguf_value(entry, 4);
      try {
        gguf.metadata.texts(entry.key);
      } catch (const Error&) {
      }
      try {
        gguf.metadata.numbers(entry.key);
      } catch (const Error&) {
      }
    }
    for (const GgufTensor& tensor : gguf.tensors) gguf_elements(tensor).clone();
  } catch (const Error&) {
  }
  return 0;
}

/// Any bytes give a tensor of the announced size or an Error, in bounded time and memory.
int fuzz_idx(const uint8_t* data, size_t size) {
  constexpr uint64_t kLimit = 1 << 20;
  try {
    const Tensor tensor = parse_idx(std::as_bytes(std::span(data, size)), "fuzz", kLimit);
    DETENT_CHECK(tensor.byte_size() <= kLimit, "{} bytes", tensor.byte_size());
  } catch (const Error&) {
  }
  return 0;
}

int fuzz_image(const uint8_t* data, size_t size) {
  // Sizes that a small file may claim take seconds to fill.
  constexpr size_t kLargest = 1 << 16;
  if (size > kLargest) return 0;
  try {
    const auto bytes = std::as_bytes(std::span(data, size));
    const ImageSize told = decode_image_size(bytes, "fuzz");
    const RgbImage image = decode_image(bytes, "fuzz");
    const ImageSize decoded = {image.height, image.width};
    DETENT_CHECK(told == decoded, "{} x {}", told.width, told.height);
    DETENT_CHECK(image.pixels.size() == static_cast<size_t>(image.height * image.width * 3), "{} x {}",
                 image.width, image.height);
  } catch (const Error&) {
  }
  return 0;
}

/// No member leads out of the folder, and together they unpack to no more than was allowed.
int fuzz_tar(const uint8_t* data, size_t size) {
  constexpr uint64_t kLimit = 1 << 20;
  const MemoryFile file(data, size);
  try {
    TarReader reader(file.path(), kLimit);
    TarMember member;
    std::array<std::byte, 4096> buffer{};
    uint64_t unpacked = 0;
    while (reader.next(member)) {
      for (const auto& part : std::filesystem::path(member.name))
        DETENT_CHECK(part != "..", "{}", member.name);
      while (const size_t read = reader.read(buffer)) unpacked += read;
      DETENT_CHECK(unpacked <= kLimit, "{} bytes", unpacked);
    }
  } catch (const Error&) {
  }
  return 0;
}

/// Every byte that an entry claims must be readable, or inflate to what it claims.
int fuzz_zip(const uint8_t* data, size_t size) {
  const MemoryFile file(data, size);
  try {
    const ZipReader zip(file.path());
    for (const ZipReader::Entry& entry : zip.entries()) {
      DETENT_CHECK(zip.find(entry.name) == &entry, "entry {}", entry.name);
      try {
        zip.unpack(entry);
      } catch (const Error&) {
      }
    }
  } catch (const Error&) {
  }
  return 0;
}

}  // namespace detent::fuzz
