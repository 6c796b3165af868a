// Files that PyTorch itself has written.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "detent/checkpoints/torch_checkpoint.h"
#include "detent/checkpoints/torch_python_for_test.h"
#include "detent/core/error.h"
#include "detent/core/log.h"

namespace detent {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

/// Every dtype, views, sharing, parameters, as `state`.
constexpr const char* kState = R"(
b = torch.arange(24.).reshape(2, 3, 4)
types = 'bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64'
state = collections.OrderedDict((n, (torch.arange(6) % 2).to(getattr(torch, n)).reshape(2, 3)) for n in types.split())
marked = torch.ones(3)
marked.note = 'a tensor with an attribute'
state.update(base=b, transposed=b.transpose(0, 2), slice=b[:, 1:, ::2], row=b[1, 2], column=b[:, :, 1:2], same=b,
             tied=b.view(24), expanded=torch.ones(2).expand(3, 2), empty=torch.zeros(2, 0), marked=marked,
             scalar=torch.tensor(7, dtype=torch.int16), parameter=torch.nn.Parameter(torch.ones(2)),
             frozen=torch.nn.Parameter(torch.ones(2, dtype=torch.int8), requires_grad=False),
             channels_last=torch.arange(48.).reshape(2, 3, 4, 2).to(memory_format=torch.channels_last))
state._metadata = {'': {'version': 1}}
p = sys.argv[1]
optimizer = {'state': {0: {'exp_avg': torch.ones(2)}}, 'param_groups': [{'lr': 1.0, 'params': [0]}]}
)";

const std::vector<std::string>& saves() {
  static const std::vector<std::string> kSaves = {
      "torch.save(state, p + '.0')",
      "torch.save(dict(state), p + '.1', pickle_protocol=4)",
      "torch.save(state, p + '.2', pickle_protocol=5)",
      "torch.save(state, p + '.3', _use_new_zipfile_serialization=False)",
      "torch.save({'epoch': 1 << 70, 'state_dict': state, 'x': {1, 2.5, b'a', (None, complex(1, 2))}}, p + "
      "'.4')",
      "torch.save({'state_dict': state, 'f': print, 'l': [state]}, open(p + '.5', 'wb'), pickle_protocol=3)",
      "torch.save({'model': state, 'optimizer': optimizer}, p + '.6')",
      "torch.save({'optimizer': optimizer, 'model_state_dict': state}, p + '.7')",
      "torch.save({'optim': optimizer, 'net': {'epoch': 3, 'weights': state}}, p + '.8')",
      "torch.save({'model': {'state_dict': state}}, p + '.9', _use_new_zipfile_serialization=False)",
  };
  return kSaves;
}

const Tensor& tensor_of(const StateDict& state, std::string_view name) {
  const auto found = std::ranges::find(state, name, &std::pair<std::string, Tensor>::first);
  EXPECT_NE(found, state.end()) << name;
  return found->second;
}

TEST_F(TorchPython, IsReadInEveryForm) {
  const std::string expected = run(fmt::format("{}{}\ndump(state)\n", kState, fmt::join(saves(), "\n")));
  ASSERT_THAT(expected, HasSubstr("parameter float32 [2]"));
  for (size_t i = 0; i < saves().size(); ++i) {
    const StateDict state = read_state_dict(fmt::format("{}.{}", path_.get().string(), i));
    EXPECT_EQ(dump(state), expected) << saves()[i];
    const std::byte* base = tensor_of(state, "base").bytes().data();
    EXPECT_EQ(tensor_of(state, "tied").bytes().data(), base) << saves()[i];
    EXPECT_EQ(tensor_of(state, "row").bytes().data(), base + 20 * sizeof(float)) << saves()[i];
  }
}

/// Checkpoints as later and earlier versions of PyTorch write them, in the words of this one.
constexpr const char* kOtherVersions = R"(
import pickle
class Storage:
  def __init__(self, *id): self.id = ('storage',) + id
class Call:
  def __init__(self, function, *arguments): self.call = function, arguments
  def __reduce__(self): return self.call
class Pickler(pickle._Pickler):
  def persistent_id(self, value): return value.id if isinstance(value, Storage) else None
def function(name):
  result = eval('lambda *a: None')
  result.__module__, result.__qualname__, result.__name__ = 'torch._utils', name, name
  setattr(torch._utils, name, getattr(torch._utils, name, result))
  return getattr(torch._utils, name)
def pickled(value):
  import io
  buffer = io.BytesIO()
  Pickler(buffer, 2).dump(value)
  return buffer.getvalue()
hooks = collections.OrderedDict()
numbers = torch.arange(8.)
raw = bytes(numbers.view(torch.uint8).tolist())
p = sys.argv[1]
)";

TEST_F(TorchPython, UntypedStoragesOfLaterVersions) {
  const std::string output = run(std::string(kOtherVersions) + R"(
v3 = function('_rebuild_tensor_v3')
def save(path, dtype, size, metadata=None):
  storage = Storage(torch.UntypedStorage, '0', 'cpu', 32)
  writer = torch._C.PyTorchFileWriter(path)
  data = pickled({'w': Call(v3, storage, 1, (size,), (1,), False, hooks, dtype, metadata)})
  writer.write_record('data.pkl', data, len(data))
  writer.write_record('data/0', raw, len(raw))
  writer.write_end_of_file()
save(p, torch.float32, 3)
save(p + '.complex', torch.complex64, 1)
save(p + '.negated', torch.float32, 1, {'neg': True})
dump({'w': numbers[1:4]})
)");
  EXPECT_EQ(dump(read_state_dict(path_.get())), output);
  EXPECT_THAT([&] { read_state_dict(path_.get().string() + ".complex"); },
              ThrowsMessage<Error>(HasSubstr("\"w\" has the dtype complex64, supported are")));
  EXPECT_THAT([&] { read_state_dict(path_.get().string() + ".negated"); },
              ThrowsMessage<Error>(HasSubstr("\"w\" is a lazily conjugated or negated view")));
}

TEST_F(TorchPython, PartsOfStoragesOfEarlierVersions) {
  const std::string output = run(std::string(kOtherVersions) + R"(
v1 = function('_rebuild_tensor')
def part(offset, size):
  return Storage(torch.FloatStorage, 'k', 'cpu', 8, ('v%d' % offset, offset, size))
def save(path, state):
  with open(path, 'wb') as file:
    for value in 0x1950a86a20f9469cfc6c, 1001, {'little_endian': False}, state, ['k']: file.write(pickled(value))
    file.write((8).to_bytes(8, 'little') + raw)
save(p, {'a': Call(v1, part(2, 4), 1, (3,), (1,)), 'b': Call(v1, Storage(torch.FloatStorage, 'k', 'cpu', 8, None), 0, (8,), (1,))})
save(p + '.outside', {'a': Call(v1, part(6, 4), 0, (1,), (1,))})
dump(torch.load(p))
)");
  EXPECT_EQ(dump(read_state_dict(path_.get())), output);
  EXPECT_THAT(output, HasSubstr("a float32 [3]"));
  EXPECT_THAT([&] { read_state_dict(path_.get().string() + ".outside"); },
              ThrowsMessage<Error>(HasSubstr("\"a\" has elements 6 to 10 of a storage of 8")));
}

TEST_F(TorchPython, ExtraStateIsLeftOut) {
  run("torch.save({'w': torch.ones(2), 'head._extra_state': {'calls': 3}}, sys.argv[1])");
  const StateDict state = read_state_dict(path_.get());
  ASSERT_EQ(state.size(), 1U);
  EXPECT_EQ(state[0].first, "w");
}

TEST_F(TorchPython, WeightsBesideTheOnesTakenAreNamed) {
  run("state = {'w': torch.ones(2)}\n"
      "torch.save({'state_dict': state, 'state_dict_ema': {'w': torch.zeros(2)}, 'rng': {'cpu': "
      "torch.ones(1)}},"
      " sys.argv[1])\n");
  testing::internal::CaptureStderr();
  set_up_logging("info");
  const StateDict state = read_state_dict(path_.get());
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(state.front().second.values<float>()[0], 1);
  EXPECT_THAT(text, AllOf(HasSubstr("\"state_dict_ema\", tensors of the same names"), Not(HasSubstr("rng"))));
}

TEST_F(TorchPython, MistakesAreNamed) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"torch.nn.Linear(2, 2)", "holds an object of torch.nn.modules.linear.Linear, expected a state_dict"},
      {"torch.nn.Linear(2, 2)", "in Python: torch.save(model.state_dict(), file)"},
      {"{'model': torch.nn.Linear(2, 2)}", "torch.save(model.state_dict(), file)"},
      {"torch.ones(2)", "expected a state_dict"},
      {"{'net': {}, 'epoch': 3}", "its keys: net, epoch"},
      {"{'model': 3, 'epoch': 3}", "\"model\" is an integer, expected a dict of tensors"},
      {"{'g': {'a': torch.ones(1)}, 'd': {'b': torch.ones(1)}}", "holds several dicts of tensors: g, d;"},
      {"{'a': torch.ones(2), 'b': 3}", "\"b\" is an integer, expected a tensor"},
      {"{'a': torch.ones(2).to(torch.complex64)}", "\"a\" has the dtype complex64, supported are"},
      {"{'a': torch.ones(2).to_sparse()}", "_rebuild_sparse_tensor"},
      {"{'a': torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)}", "_rebuild_qtensor"},
      {"{'a': torch.ones(1).expand(1 << 20, 1 << 20)}", "\"a\" is a view that is not contiguous"},
  };
  std::string script = "torch.jit.script(torch.nn.Linear(2, 2)).save(sys.argv[1])\n";
  const auto path = [&](size_t i) { return fmt::format("{}.{}", path_.get().string(), i); };
  for (size_t i = 0; i < cases.size(); ++i) {
    script += fmt::format("torch.save({}, '{}')\n", cases[i].first, path(i));
  }
  script += fmt::format("torch.save(torch.nn.Linear(2, 2), '{}', _use_new_zipfile_serialization=False)\n",
                        path(cases.size()));
  EXPECT_THAT(run(script), testing::Not(HasSubstr("Error")));
  EXPECT_THAT([&] { read_state_dict(path_.get()); },
              ThrowsMessage<Error>(HasSubstr("a TorchScript archive")));
  for (size_t i = 0; i < cases.size(); ++i) {
    EXPECT_THAT([&] { read_state_dict(path(i)); },
                ThrowsMessage<Error>(AllOf(HasSubstr(path(i)), HasSubstr(cases[i].second))))
        << cases[i].first;
  }
  EXPECT_THAT([&] { read_state_dict(path(cases.size())); },
              ThrowsMessage<Error>(HasSubstr("torch.save(model.state_dict(), file)")));
}

}  // namespace
}  // namespace detent
