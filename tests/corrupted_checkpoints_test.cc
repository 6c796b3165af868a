// Ten thousand damaged checkpoints: none may crash the reader, keep it busy, or make it take more memory than
// twice the file. A program of its own, because it counts what is allocated.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "detent/checkpoints/torch_checkpoint.h"
#include "detent/checkpoints/torch_python_for_test.h"
#include "detent/core/error.h"
#include "detent/files/file.h"
#include "detent/files/zip.h"

#include "corrupted_files_for_test.h"
#include "counted_memory_for_test.h"

namespace detent {
namespace {

constexpr int kCorruptions = 10'000;

struct Outcome {
  int read = 0;
  int refused = 0;
  double largest_share = 0;  // of memory to bytes of the file
  double slowest = 0;        // CPU seconds
};

void read_once(const std::filesystem::path& path, uint64_t size, Outcome& outcome) {
  const double begin = cpu_seconds();
  const int64_t before = Memory::live();
  Memory::restart();
  try {
    for (const auto& [name, tensor] : read_state_dict(path)) {
      for (const std::byte byte : tensor.bytes()) asm volatile("" : : "r"(byte));
    }
    ++outcome.read;
  } catch (const Error&) {
    ++outcome.refused;
  }
  const double share = static_cast<double>(Memory::peak() - before) / static_cast<double>(size);
  outcome.largest_share = std::max(outcome.largest_share, share);
  outcome.slowest = std::max(outcome.slowest, cpu_seconds() - begin);
  EXPECT_EQ(Memory::live(), before) << "something was not given back";
}

void expect_survival(const std::vector<std::string>& files) {
  const RewrittenFile memory;
  Outcome intact;
  for (const std::string& file : files) {
    memory.write(file);
    read_once(memory.path(), file.size(), intact);  // and what allocates once a process
    read_once(memory.path(), file.size(), intact = {.read = intact.read});
    EXPECT_LE(intact.largest_share, 2);
  }
  ASSERT_EQ(intact.read, 2 * static_cast<int>(files.size()));
  Outcome outcome;
  for (unsigned seed = 0; seed < kCorruptions; ++seed) {
    const std::string text = Corruption(seed).apply(files[seed % files.size()]);
    if (text.empty()) continue;
    memory.write(text);
    // A cut file is still held to the size it had: what was read before the end is missed is the same.
    read_once(memory.path(), std::max(text.size(), files[seed % files.size()].size()), outcome);
    ASSERT_LE(outcome.largest_share, 2) << "seed " << seed;
    ASSERT_LT(outcome.slowest, 5 * kSlowdown) << "seed " << seed;
  }
  fmt::print("{} read, {} refused, at most {:.2f} times the file, {:.1f} ms\n", outcome.read, outcome.refused,
             outcome.largest_share, 1e3 * outcome.slowest);
  EXPECT_GT(outcome.read, kCorruptions / 100);
  EXPECT_GT(outcome.refused, kCorruptions / 10);
}

TEST(CorruptedCheckpoints, OfDetent) {
  StateDict state;
  for (int i = 0; i < 10; ++i) {
    state.emplace_back(fmt::format("layer{}.weight", i), Tensor(static_cast<DType>(i), {16, 16 + i}));
  }
  state.emplace_back("tied", state.back().second);
  LightningCheckpoint lightning{.epoch = 3, .global_step = 4, .state = state, .optimizer = OptimizerState{}};
  const TemporaryPath path("model.pt");
  std::vector<std::string> files;
  write_state_dict(path.get(), state);
  files.push_back(read_file(path.get()));
  write_lightning_checkpoint(path.get(), lightning);
  files.push_back(read_file(path.get()));
  expect_survival(files);
}

std::string repeated(std::string_view text, size_t bytes) {
  std::string result;
  while (result.size() < bytes) result += text;
  return result;
}

// A value has a byte or two in these files and some 50 in memory.
TEST(CorruptedCheckpoints, PicklesOfMillionsOfValues) {
  constexpr size_t kBytes = size_t{24} << 20;
  std::string numbered;  // a dict of as many different keys
  for (int i = 0; numbered.size() < kBytes; ++i) numbered += fmt::format("\x8c\x08{:08x}N", i);
  const std::vector<std::string> pickles = {repeated("N", kBytes),
                                            repeated("]", kBytes),
                                            repeated("(", kBytes),
                                            "]" + repeated("Na", kBytes),
                                            "](" + repeated("K\x01", kBytes) + "e",
                                            "}" + repeated("NNs", kBytes),
                                            "}(" + numbered + "u",
                                            "N" + repeated("\x85", kBytes),
                                            repeated(std::string_view("N\x94", 2), kBytes),
                                            "N" + repeated("2", kBytes),
                                            repeated("I1\n", kBytes),
                                            "cm\nc\n" + repeated(")\x81}b", kBytes)};
  const TemporaryPath path("model.pt");
  for (const std::string& pickle : pickles) {
    ZipWriter zip(path.get());
    zip.add("m/data.pkl", "\x80\x02" + pickle + ".");
    zip.commit();
    Outcome outcome;
    read_once(path.get(), std::filesystem::file_size(path.get()), outcome);
    EXPECT_EQ(outcome.refused, 1);
    EXPECT_LE(outcome.largest_share, 2) << pickle.substr(0, 16);
    EXPECT_LT(outcome.slowest, 5 * kSlowdown);
  }
}

// A tensor takes some hundred bytes of memory under each of its names, of which the file has a few bytes.
TEST(CorruptedCheckpoints, OneTensorOfManyNames) {
  using std::string_literals::operator""s;
  std::string pickle =
      "\x80\x02"
      "ctorch._utils\n_rebuild_tensor_v2\n((\x8c\x07storagectorch\nFloatStorage\n"
      "\x8c\x01k\x8c\x03"
      "cpuK\x01tQK\0K\x01\x85K\x01\x85\x89"
      "ccollections\nOrderedDict\n)RtRq\0\x30}("s;
  for (int i = 0; i < 100'000; ++i) pickle += fmt::format("\x8c\x05{:05x}h", i) + '\0';
  for (const size_t other_bytes : {size_t{0}, size_t{80} << 20}) {
    const TemporaryPath path("model.pt");
    ZipWriter zip(path.get());
    zip.add("m/data.pkl", pickle + "u.");
    zip.add("m/data/k", std::string(4, 'x'));
    zip.add("m/data/other", std::string(other_bytes, 'x'));
    zip.commit();
    const uint64_t size = std::filesystem::file_size(path.get());
    Outcome outcome;
    read_once(path.get(), size, outcome);
    EXPECT_EQ(outcome.refused, other_bytes == 0 ? 1 : 0);
    EXPECT_LE(outcome.largest_share * static_cast<double>(size),
              std::max(2.0 * static_cast<double>(size), 0x1p24));
  }
}

TEST_F(TorchPython, CorruptedCheckpointsOfPyTorch) {
  // Keys of storages are addresses in the older layout: without numbers instead, each run would damage other
  // files.
  const std::string script = R"(
address = torch._C.StorageBase._cdata.__get__
keys = {}
torch.UntypedStorage._cdata = property(lambda s: keys.setdefault(address(s), 10**14 + len(keys)))
types = 'bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64'
state = collections.OrderedDict((n + '.weight', (torch.arange(600) % 2).to(getattr(torch, n)).reshape(20, 30)) for n in types.split())
base = torch.arange(600.).reshape(20, 30)
state.update(base=base, tied=base.view(-1), row=base[3], transposed=base.t(), slice=base[2:5, ::3],
             parameter=torch.nn.Parameter(torch.ones(200)), expanded=torch.ones(1, 20).expand(20, 20))
state._metadata = {'': {'version': 1}}
p = sys.argv[1]
torch.save(state, p + '.0')
torch.save(state, p + '.1', pickle_protocol=4)
torch.save(state, p + '.2', _use_new_zipfile_serialization=False)
torch.save({'epoch': 3, 'model_state_dict': dict(state), 'x': {1, 2.5, b'a', (None, complex(1, 2))}}, p + '.3')
torch.save({'net': {'weights': state}, 'f': print}, p + '.4', _use_new_zipfile_serialization=False)
)";
  ASSERT_EQ(run(script), "");
  std::vector<std::string> files;
  for (int i = 0; i < 5; ++i) files.push_back(read_file(fmt::format("{}.{}", path_.get().string(), i)));
  expect_survival(files);
}

}  // namespace
}  // namespace detent
