#include "detent/io/file_kind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "detent/core/error.h"
#include "detent/graph/builder.h"
#include "detent/io/file.h"
#include "detent/io/graph_file.h"
#include "detent/io/npy.h"
#include "detent/io/safetensors.h"
#include "detent/io/temporary_file_test.h"
#include "detent/io/torch_checkpoint.h"

namespace detent {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(FileKinds, AreToldByContent) {
  const TemporaryPath file("file.bin");
  const std::vector<std::pair<std::string, Tensor>> tensors = {{"w", Tensor(DType::kFloat32, {2})}};
  write_safetensors(file.get(), tensors);
  EXPECT_EQ(file_kind(file.get()), FileKind::kSafetensors);
  write_state_dict(file.get(), tensors);
  EXPECT_EQ(file_kind(file.get()), FileKind::kCheckpoint);
  write_npy(file.get(), tensors[0].second);
  EXPECT_EQ(file_kind(file.get()), FileKind::kNpy);
  GraphBuilder builder("g");
  write_graph(file.get(), builder.finish(builder.call("relu", {builder.input("x", {2})})));
  EXPECT_EQ(file_kind(file.get()), FileKind::kGraph);
  file.overwrite("\x80\x02}q\x01.");
  EXPECT_EQ(file_kind(file.get()), FileKind::kCheckpoint);
  file.overwrite("text");
  EXPECT_THAT([&] { file_kind(file.get()); }, ThrowsMessage<Error>(HasSubstr("nothing that is known")));
}

/// Whatever byte the length of its header begins with: 0x80 begins pickles, "PK" zip archives.
TEST(FileKinds, SafetensorsHaveHeadersOfAnyLength) {
  const TemporaryPath file("file.bin");
  for (const uint64_t length :
       {uint64_t{2}, uint64_t{0x80}, uint64_t{0x280}, uint64_t{0x480}, uint64_t{0x4B50}}) {
    std::string text(sizeof(length), '\0');
    std::memcpy(text.data(), &length, sizeof(length));
    file.overwrite(text + "{}" + std::string(length - 2, ' '));
    EXPECT_EQ(file_kind(file.get()), FileKind::kSafetensors) << length;
  }
}

}  // namespace
}  // namespace detent
