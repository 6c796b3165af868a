#include "detent/files/array_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <random>

#include "detent/core/error.h"
#include "detent/files/file.h"
#include "detent/files/temporary_file_test.h"
#include "detent/files/zip.h"

namespace detent {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::string npy_bytes(const Tensor& tensor) {
  const TemporaryPath path("array.npy");
  write_npy(path.get(), tensor);
  return read_file(path.get());
}

void put(std::string& text, uint64_t number, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) text += static_cast<char>(number >> (8 * i));
}

struct DeflatedEntry {
  std::string name;
  std::string content;
  uint32_t claimed_size = 0;  // 0: the true one
  uint16_t method = 8;
};

std::string deflated(const std::string& content) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(content.size() + 1000, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(packed.size() - stream.avail_out);
  deflateEnd(&stream);
  return packed;
}

/// An archive as numpy.savez_compressed writes it.
std::string deflated_archive(const std::vector<DeflatedEntry>& entries) {
  std::string text;
  std::string directory;
  for (const auto& [name, content, claimed, method] : entries) {
    const std::string packed = deflated(content);
    std::string facts;
    put(facts, method, 2);
    put(facts, 0, 4);
    put(facts, crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size()), 4);
    put(facts, packed.size(), 4);
    put(facts, claimed != 0 ? claimed : content.size(), 4);
    put(facts, name.size(), 2);
    put(facts, 0, 2);
    directory += std::string("PK\x01\x02", 4) + std::string("\x14\0\x14\0\0\0", 6) + facts;
    directory += std::string(10, '\0');
    put(directory, text.size(), 4);
    directory += name;
    text += std::string("PK\x03\x04\x14\0\0\0", 8);
    text.append(facts).append(name).append(packed);
  }
  std::string end = std::string("PK\x05\x06\0\0\0\0", 8);
  put(end, entries.size(), 2);
  put(end, entries.size(), 2);
  put(end, directory.size(), 4);
  put(end, text.size(), 4);
  put(end, 0, 2);
  return text + directory + end;
}

Tensor repeated_integers() {
  Tensor tensor(DType::kInt16, {100, 50});
  for (int i = 0; i < 5000; ++i)
    tensor.values<int16_t>()[static_cast<size_t>(i)] = static_cast<int16_t>(i % 77);
  return tensor;
}

TEST(Npz, ReadsStoredAndDeflatedArrays) {
  const Tensor labels = Tensor::from<double>({3}, std::vector<double>{1, 2, 3});
  const TemporaryPath stored("stored.npz");
  ZipWriter writer(stored.get());
  writer.add("inputs.npy", npy_bytes(repeated_integers()));
  writer.add("labels.npy", npy_bytes(labels));
  writer.commit();
  const TemporaryPath packed("packed.npz");
  packed.overwrite(
      deflated_archive({{"inputs.npy", npy_bytes(repeated_integers())}, {"labels.npy", npy_bytes(labels)}}));
  for (const auto& path : {stored.get(), packed.get()}) {
    const auto arrays = read_npz(path);
    ASSERT_EQ(arrays.size(), 2U);
    EXPECT_EQ(arrays[0].first, "inputs");
    EXPECT_TRUE(arrays[0].second.equals(repeated_integers()));
    EXPECT_EQ(arrays[1].first, "labels");
    EXPECT_TRUE(arrays[1].second.equals(labels));
    const auto summary = summarize_npz(path);
    ASSERT_EQ(summary.size(), 2U);
    EXPECT_EQ(summary[0].name, "inputs");
    EXPECT_EQ(summary[0].dtype, "int16");
    EXPECT_EQ(summary[0].shape, (Shape{100, 50}));
    EXPECT_EQ(summary[0].byte_size, 10000U);
  }
}

TEST(Npz, RefusesDamage) {
  const TemporaryPath path("packed.npz");
  const std::string array = npy_bytes(repeated_integers());
  const auto message = [&](const std::vector<DeflatedEntry>& entries, const char* text) {
    path.overwrite(deflated_archive(entries));
    EXPECT_THAT([&] { read_npz(path.get()); },
                ThrowsMessage<Error>(AllOf(HasSubstr(path.get().string()), HasSubstr(text))));
  };
  message({{"a.npy", "no array"}}, "array \"a\": not a .npy file");
  message({{"readme.txt", array}}, "entry \"readme.txt\" is no .npy file");
  message({{"a.npy", array}, {"a.npy", array}}, "two entries");
  message({{"a.npy", array, 5000}}, "does not unpack to 5000 bytes");
  message({{"a.npy", array, 20000}}, "does not unpack to 20000 bytes");
  message({{"a.npy", array, 0xfffffffe}}, "cannot unpack to 4294967294");
  message({{"a.npy", array, 0, 12}}, "method 12, supported are 0 (stored) and 8 (deflated)");
  message({{"a.npy", array.substr(0, 300)}}, "array \"a\": 172 bytes of data");
}

TEST(Npz, SurvivesMutations) {
  const TemporaryPath path("packed.npz");
  const std::string archive = deflated_archive({{"a.npy", npy_bytes(repeated_integers())}});
  std::mt19937 random(3);
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string text = archive;
    if (i % 5 == 0) text.resize(random() % text.size());
    if (!text.empty()) text[random() % text.size()] ^= static_cast<char>(1U << (random() % 8));
    path.overwrite(text);
    try {
      read_npz(path.get());
      summarize_npz(path.get());
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1500);
}

}  // namespace
}  // namespace detent
