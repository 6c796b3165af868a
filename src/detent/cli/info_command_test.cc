#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <numeric>

#include "detent/checkpoints/gguf/gguf_for_test.h"
#include "detent/checkpoints/torch_checkpoint.h"
#include "detent/cli/file_kind.h"
#include "detent/cli/program_for_test.h"
#include "detent/files/array_files.h"
#include "detent/files/scratch.h"
#include "detent/files/temporary_file_test.h"
#include "detent/files/zip.h"
#include "detent/graph/builder.h"
#include "detent/graph_files/graph_file.h"
#include "detent/graph_files/packed_tensors.h"

namespace detent {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string info_of(const std::filesystem::path& path) {
  const ProgramResult result = run_program({"info", path.string()});
  EXPECT_EQ(result.status, 0) << result.errors;
  return result.output;
}

TEST(FileInfo, TellsOfCheckpoints) {
  const TemporaryPath path("last.ckpt");
  const StateDict state = {{"fc.weight", Tensor(DType::kFloat16, {3, 4})},
                           {"fc.bias", Tensor(DType::kBool, {3})}};
  write_lightning_checkpoint(path.get(), {.epoch = 7, .global_step = 900, .state = state, .optimizer = {}});
  EXPECT_THAT(info_of(path.get()),
              AllOf(HasSubstr("kind: PyTorch Lightning checkpoint\n"), HasSubstr("epoch: 7\n"),
                    HasSubstr("global_step: 900\n"), HasSubstr("pytorch-lightning_version: 2.0.9\n"),
                    HasSubstr("layout: zip\n"), HasSubstr("tensors: 2, 27 bytes\n"),
                    HasSubstr("| model.fc.weight | [3, 4] | float16 |    24 |")));
  write_state_dict(path.get(), state);
  EXPECT_THAT(info_of(path.get()), AllOf(HasSubstr("kind: PyTorch checkpoint\n"), HasSubstr("| fc.bias")));
}

TEST(FileInfo, TellsOfArrays) {
  const TemporaryPath npy("array.npy");
  write_npy(npy.get(), Tensor(DType::kInt32, {5, 2}));
  EXPECT_THAT(info_of(npy.get()),
              AllOf(HasSubstr("kind: NumPy array\n"), HasSubstr("| array  | [5, 2] | int32 |    40 |")));
  const TemporaryPath npz("arrays.npz");
  ZipWriter writer(npz.get());
  writer.add("inputs.npy", read_file(npy.get()));
  writer.commit();
  EXPECT_THAT(info_of(npz.get()),
              AllOf(HasSubstr("kind: NumPy archive\n"), HasSubstr("| inputs | [5, 2] | int32 |    40 |")));
}

TEST(FileInfo, TellsOfGgufFiles) {
  const TemporaryPath path("model.bin");
  GgufBytes bytes;
  bytes.text("general.architecture", "llama").integer("llama.block_count", 30);
  bytes.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "smollm");
  bytes.entry("tokenizer.ggml.tokens", GgufType::kArray,
              GgufBytes::texts_bytes(std::vector<std::string>(9, "a")));
  bytes.tensor("token_embd.weight", 2, {2, 32}, std::string(36, 0)).floats("output_norm.weight", {1}, {1});
  path.overwrite(bytes.bytes());
  EXPECT_THAT(
      info_of(path.get()),
      AllOf(HasSubstr("kind: GGUF\n"), HasSubstr("architecture: llama\n"), HasSubstr("parameters: 65\n"),
            HasSubstr("Q4_0 = {tensors = 1, bytes = 36}"), HasSubstr("llama.block_count: 30\n"),
            HasSubstr("tokenizer: gpt2 (smollm), 9 tokens\n"), HasSubstr("tokens: 9 string\n"),
            HasSubstr("| token_embd.weight  | [2, 32] | Q4_0  |    36 |")));
}

TEST(FileInfo, TellsOfPackedAndUnknownDtypes) {
  const TemporaryPath packed("packed.safetensors");
  const PackedEntry entry{.name = "w",
                          .dtype = DType::kFloat32,
                          .shape = {4, 4},
                          .spec = parse_quant_spec_text("affine:width=4,symmetric=true")};
  write_packed_tensors(
      packed.get(), {entry}, {{"author", "somebody"}},
      [](size_t) {
        return Tensor(DType::kFloat32, {4, 4});
      },
      Scratch(packed.get().parent_path()));
  EXPECT_THAT(info_of(packed.get()),
              AllOf(HasSubstr("kind: safetensors with packed tensors\n"), HasSubstr("author: somebody\n"),
                    HasSubstr("affine:width=4"), HasSubstr("| w      | [4, 4] |")));
  const TemporaryPath other("float8.safetensors");
  for (const char* dtype : {"F8_E8M0", "F9_E4M4"}) {  // read as bytes, and not read
    const std::string header =
        fmt::format(R"({{"x":{{"dtype":"{}","shape":[2,2],"data_offsets":[0,4]}}}} )", dtype);
    const uint64_t length = header.size();
    other.overwrite(std::string(reinterpret_cast<const char*>(&length), 8) + header + "abcd");
    EXPECT_THAT(info_of(other.get()), HasSubstr(fmt::format("| x      | [2, 2] | {} |     4 |", dtype)));
  }
}

TEST(FileInfo, TellsOfOpenSizesAndOfWhatComputesInFloat) {
  const TemporaryPath path("open.mz");
  GraphBuilder builder("open");
  const TensorType images{DType::kFloat32, {kBatchName, 3, Dimension("h", 32), Dimension("w", 32)}};
  NodeInput x = builder.convolution("conv", builder.input("x", images), 3, 8, {3, 3}, {{"padding", 1}});
  x = builder.call("max_pool2d", {x}, {{"kernel_size", 4}});
  write_graph(path.get(), builder.finish(builder.call("softmax", {x}, {{"dim", 1}})));
  EXPECT_THAT(info_of(path.get()),
              AllOf(HasSubstr("inputs: x float32 [N, 3, h, w]\n"),
                    HasSubstr("outputs: softmax float32 [N, 8, floor(h/4), floor(w/4)]\n"),
                    HasSubstr("counted at: h = 32, w = 32\n"),
                    HasSubstr("in integers: 1 x softmax (no integer form)\n"),
                    testing::ContainsRegex("softmax +\\| softmax +\\| +\\| no integer form +\\|")));
  const ProgramResult fixed = run_program({"info", path.get().string(), "--shape", "x=1,3,8,16"});
  EXPECT_THAT(fixed.output, HasSubstr("outputs: softmax float32 [N, 8, 2, 4]\n"));
  const ProgramResult wrong = run_program({"info", path.get().string(), "--shape", "y=1,3,8,16"});
  EXPECT_THAT(wrong.errors, HasSubstr("--shape: unknown input \"y\""));
}

TEST(FileInfo, MistakesAreNamed) {
  const TemporaryPath path("model.pt");
  const auto message = [&](const std::string& content, const char* text) {
    path.overwrite(content);
    const ProgramResult result = run_program({"info", path.get().string()});
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.errors, AllOf(HasSubstr(path.get().string()), HasSubstr(text)));
  };
  message("", "is empty, expected a graph (.mz), an ONNX model, a checkpoint of PyTorch");
  message("some text that is no file of tensors", "holds nothing that is known by its first bytes");
  message("PK\x03\x04", "cut off");
  message("\x80\x02}.", "not a zip archive");
  message("\x93NUMPY\x01", "cut off");
  message(std::string("\xff\0\0\0\0\0\0\0{}", 10), "a header of 255 bytes");
}

/// Pages of the file in the page cache.
int64_t resident_bytes(const std::filesystem::path& path) {
  const auto file = map_file(path);
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages((file->bytes().size() + page - 1) / page);
  EXPECT_EQ(mincore(file->bytes().data(), file->bytes().size(), pages.data()), 0);
  return std::accumulate(pages.begin(), pages.end(), int64_t{0}, [&](int64_t sum, unsigned char state) {
    return sum + (state & 1U) * static_cast<int64_t>(page);
  });
}

void drop_from_page_cache(const std::filesystem::path& path) {
  const int descriptor = open(path.c_str(), O_RDONLY);
  fdatasync(descriptor);
  posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
  close(descriptor);
}

/// It takes milliseconds on a file of any size because it reads the headers only.
TEST(FileInfo, DoesNotReadTheElements) {
  const std::vector<std::pair<std::string, Tensor>> state = {{"a", Tensor(DType::kFloat32, {16 << 20})},
                                                             {"b", Tensor(DType::kBool, {48 << 20})}};
  const TemporaryPath checkpoint("large.pt");
  write_state_dict(checkpoint.get(), state);
  const TemporaryPath tensors("large.safetensors");
  write_safetensors(tensors.get(), state);
  const TemporaryPath array("large.npy");
  write_npy(array.get(), state[1].second);
  const TemporaryPath archive("large.npz");
  {
    ZipWriter writer(archive.get());
    writer.add("a.npy", read_file(array.get()));
    writer.commit();
  }
  for (const TemporaryPath* path : {&checkpoint, &tensors, &array, &archive}) {
    drop_from_page_cache(path->get());
    const int64_t before = resident_bytes(path->get());
    if (before > 0) GTEST_SKIP() << "the temporary directory keeps files in memory";
    file_kind(path->get()).info(path->get(), {});
    // The kernel reads ahead around what was touched, a few megabytes at most.
    EXPECT_LT(resident_bytes(path->get()), static_cast<int64_t>(file_size(path->get()) / 3)) << path->get();
    EXPECT_GT(resident_bytes(path->get()), 0) << path->get();
  }
}

}  // namespace
}  // namespace detent
