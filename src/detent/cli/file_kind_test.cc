#include "detent/cli/file_kind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "detent/checkpoints/gguf/gguf_for_test.h"
#include "detent/checkpoints/torch_checkpoint.h"
#include "detent/core/error.h"
#include "detent/files/array_files.h"
#include "detent/files/file.h"
#include "detent/files/safetensors.h"
#include "detent/files/temporary_file_test.h"
#include "detent/graph/builder.h"
#include "detent/graph_files/graph_file.h"

namespace detent {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(FileKinds, AreToldByContent) {
  const TemporaryPath file("file.bin");
  const std::vector<std::pair<std::string, Tensor>> tensors = {{"w", Tensor(DType::kFloat32, {2})}};
  write_safetensors(file.get(), tensors);
  EXPECT_STREQ(file_kind(file.get()).load_type, "safetensors");
  write_state_dict(file.get(), tensors);
  EXPECT_STREQ(file_kind(file.get()).load_type, "pt");
  write_lightning_checkpoint(file.get(), {.state = tensors, .optimizer = {}});
  EXPECT_STREQ(file_kind(file.get()).load_type, "pl");
  write_npy(file.get(), tensors[0].second);
  EXPECT_STREQ(file_kind(file.get()).text, "a NumPy array");
  GraphBuilder builder("g");
  write_graph(file.get(), builder.finish(builder.call("relu", {builder.input("x", {2})})));
  EXPECT_STREQ(file_kind(file.get()).load_type, "mz");
  file.overwrite("\x80\x02}q\x01.");
  EXPECT_THAT([&] { file_kind(file.get()); }, ThrowsMessage<Error>(HasSubstr("file.bin")))
      << "a damaged pickle";
  file.overwrite(std::string("\x08\x08\x12\x00", 4));
  EXPECT_EQ(file_kind(file.get()), onnx_kind());
  file.overwrite(GgufBytes().bytes());
  EXPECT_STREQ(file_kind(file.get()).load_type, "gguf");
  file.overwrite("text");
  EXPECT_THAT([&] { file_kind(file.get()); }, ThrowsMessage<Error>(HasSubstr("nothing that is known")));
}

/// The help of load_type follows from the table of kinds.
TEST(FileKinds, NameTheLoadTypes) {
  EXPECT_EQ(LoadType::field_type(), "one of mz, onnx, pt, pl, safetensors, hf, gguf");
  EXPECT_TRUE(LoadType::from_value(Value("mz"), "here").kind().holds_graph());
  EXPECT_EQ(LoadType::from_value(Value("pl"), "here").to_value(), Value("pl"));
  EXPECT_THAT([] { LoadType::from_value(Value("tflite"), "here"); },
              ThrowsMessage<Error>(HasSubstr("here: unknown value \"tflite\"")));
  EXPECT_EQ(file_kinds_text(),
            "a graph (.mz), an ONNX model, a checkpoint of PyTorch (.pt, .th, .ckpt), .safetensors, the "
            "folder of a "
            "language model (config.json), a GGUF file, .npy or .npz");
}

/// Whatever byte the length of its header begins with: 0x80 begins pickles, "PK" zip archives.
TEST(FileKinds, SafetensorsHaveHeadersOfAnyLength) {
  const TemporaryPath file("file.bin");
  for (const uint64_t length :
       {uint64_t{2}, uint64_t{0x80}, uint64_t{0x280}, uint64_t{0x480}, uint64_t{0x4B50}}) {
    std::string text(sizeof(length), '\0');
    std::memcpy(text.data(), &length, sizeof(length));
    file.overwrite(text + "{}" + std::string(length - 2, ' '));
    EXPECT_STREQ(file_kind(file.get()).load_type, "safetensors") << length;
  }
}

}  // namespace
}  // namespace detent
