#include "detent/checkpoints/torch_checkpoint.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <random>

#include "detent/checkpoints/pickle.h"
#include "detent/checkpoints/torch_python_for_test.h"
#include "detent/core/error.h"
#include "detent/files/file.h"
#include "detent/files/temporary_file_test.h"
#include "detent/files/zip.h"

namespace detent {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

Tensor counting(DType dtype, Shape shape) {
  Tensor tensor(dtype, std::move(shape));
  const unsigned modulus = dtype == DType::kBool ? 2 : 120;
  for (size_t i = 0; i < tensor.byte_size(); ++i)
    tensor.bytes()[i] = static_cast<std::byte>((i * 7 + 1) % modulus);
  return tensor;
}

StateDict every_dtype() {
  StateDict state;
  for (int i = 0; i < 10; ++i) {
    const auto dtype = static_cast<DType>(i);
    state.emplace_back(std::string(dtype_name(dtype)), counting(dtype, {2, i, 3}));
  }
  state.emplace_back("scalar", counting(DType::kFloat32, {}));
  state.emplace_back("shared", state[8].second);
  state.emplace_back("shared.flat", state[8].second.reshaped({48}));
  return state;
}

TEST(TorchCheckpoint, RoundTripsEveryDtype) {
  const TemporaryPath path("model.pt");
  const StateDict state = every_dtype();
  write_state_dict(path.get(), state);
  const StateDict read = read_state_dict(path.get());
  EXPECT_EQ(dump(read), dump(state));
  EXPECT_EQ(read[8].second.bytes().data(), read[11].second.bytes().data());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(read[8].second.bytes().data()) % 64, 0U);
  write_state_dict(path.get(), {});
  EXPECT_TRUE(read_state_dict(path.get()).empty());
}

LightningCheckpoint lightning_checkpoint() {
  LightningCheckpoint checkpoint;
  checkpoint.epoch = 3;
  checkpoint.global_step = 4000;
  checkpoint.state = every_dtype();
  checkpoint.optimizer.emplace();
  checkpoint.optimizer->parameters = {{{"step", Tensor::from<float>({}, std::vector<float>{2.5F})}}, {}};
  checkpoint.optimizer->settings = {{"lr", 0.5}, {"betas", List{0.9, 0.999}}, {"foreach", Value()}};
  return checkpoint;
}

TEST(TorchCheckpoint, RoundTripsLightning) {
  const TemporaryPath path("best.ckpt");
  write_lightning_checkpoint(path.get(), lightning_checkpoint());
  const StateDict read = read_state_dict(path.get());
  EXPECT_EQ(read[0].first, "model.bool");
  EXPECT_EQ(dump(without_model_prefix(read)), dump(every_dtype()));
  EXPECT_THROW(without_model_prefix({{"a", Tensor()}, {"model.a", Tensor()}}), Error);
}

TEST(TorchCheckpoint, WrapperPrefixesAreStrippedWhereAllNamesHaveThem) {
  const auto names = [](const std::vector<std::string>& before) {
    StateDict state;
    for (const std::string& name : before) state.emplace_back(name, Tensor());
    std::vector<std::string> after;
    for (const auto& [name, tensor] : without_wrapper_prefixes(std::move(state))) after.push_back(name);
    return after;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names({"module.a", "module.module.b"}), (Names{"a", "module.b"}));
  EXPECT_EQ(names({"model.module._orig_mod.a", "model.module._orig_mod.b"}), (Names{"a", "b"}));
  EXPECT_EQ(names({"module.a", "b"}), (Names{"module.a", "b"}));
  EXPECT_EQ(names({"model.a", "module.b"}), (Names{"model.a", "module.b"}));
  EXPECT_EQ(names({"models.a"}), (Names{"models.a"}));
  EXPECT_EQ(names({}), Names{});
}

TEST_F(TorchPython, LoadsOurStateDict) {
  write_state_dict(path_.get(), every_dtype());
  EXPECT_EQ(run("state = torch.load(sys.argv[1])\n"
                "assert type(state) is collections.OrderedDict\n"
                "assert state['shared'].data_ptr() == state['float32'].data_ptr()\n"
                "dump(state)\n"),
            dump(every_dtype()));
}

TEST_F(TorchPython, LoadsOurLightningCheckpoint) {
  const LightningCheckpoint checkpoint = lightning_checkpoint();
  write_lightning_checkpoint(path_.get(), checkpoint);
  EXPECT_EQ(run("c = torch.load(sys.argv[1])\n"
                "print(*c)\n"
                "print(c['epoch'], c['global_step'], c['loops'], c['callbacks'], c['lr_schedulers'])\n"
                "print(c['optimizer_states'])\n"
                "dump({k[6:]: v for k, v in c['state_dict'].items()})\n"),
            "epoch global_step pytorch-lightning_version state_dict loops callbacks optimizer_states "
            "lr_schedulers\n"
            "3 4000 {} {} []\n"
            "[{'state': {0: {'step': tensor(2.5000)}, 1: {}}, 'param_groups': [{'lr': 0.5, "
            "'betas': [0.9, 0.999], 'foreach': None, 'params': [0, 1]}]}]\n" +
                dump(checkpoint.state));
}

/// A state_dict {"w": float32 tensor} over a storage of four elements, with the given layout.
void write_tensor(const std::filesystem::path& path, int64_t offset, const Shape& shape, const Shape& strides,
                  int64_t storage_numel, std::string_view byte_order = "little") {
  PickleWriter pickle;
  const auto tuple = [&](const std::function<void()>& content) {
    pickle.mark();
    content();
    pickle.tuple();
  };
  const auto integers = [&](const Shape& values) {
    tuple([&] {
      for (const int64_t value : values) pickle.integer(value);
    });
  };
  pickle.empty_dict();
  pickle.mark();
  pickle.text("w");
  pickle.global("torch._utils", "_rebuild_tensor_v2");
  tuple([&] {
    tuple([&] {
      pickle.text("storage");
      pickle.global("torch", "FloatStorage");
      pickle.text("0");
      pickle.text("cpu");
      pickle.integer(storage_numel);
    });
    pickle.persistent();
    pickle.integer(offset);
    integers(shape);
    integers(strides);
  });
  pickle.reduce();
  pickle.set_items();
  ZipWriter zip(path);
  zip.add("archive/data.pkl", pickle.finish());
  const std::array values = {1.0F, 2.0F, 3.0F, 4.0F};
  zip.add("archive/byteorder", byte_order);
  zip.add("archive/data/0", std::as_bytes(std::span(values)));
  zip.commit();
}

TEST(TorchCheckpoint, ChecksTheBoundsOfViews) {
  const TemporaryPath path("model.pt");
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  const auto refused = [&](int64_t offset, const Shape& shape, const Shape& strides, int64_t numel,
                           const char* text) {
    write_tensor(path.get(), offset, shape, strides, numel);
    EXPECT_THAT(
        [&] { read_state_dict(path.get()); },
        ThrowsMessage<Error>(AllOf(HasSubstr(path.get().string()), HasSubstr("\"w\""), HasSubstr(text))));
  };
  write_tensor(path.get(), 1, {1, 3}, {kHuge, 1}, 4);
  EXPECT_EQ(dump(read_state_dict(path.get())), "w float32 [1, 3] 000000400000404000008040\n");
  write_tensor(path.get(), 3, {1, 2}, {kHuge, 0}, 4);
  EXPECT_EQ(dump(read_state_dict(path.get())), "w float32 [1, 2] 0000804000008040\n");
  refused(0, {5}, {1}, 4, "outside its storage of 4 elements");
  refused(1, {4}, {1}, 4, "outside its storage");
  refused(0, {2, 2}, {3, 1}, 4, "outside its storage");
  refused(0, {2, 2}, {kHuge, kHuge}, 4, "outside its storage");
  refused(kHuge, {1}, {1}, 4, "outside its storage");
  refused(0, {5}, {1}, 5, "a storage of 5 elements, the file has 4");
  refused(0, {kHuge, kHuge}, {0, 0}, 4, "too many elements");
  refused(0, {kHuge}, {0}, 4, "too large to copy");
  refused(-1, {1}, {1}, 4, "is damaged");
  refused(0, {-1}, {1}, 4, "is damaged");
  refused(0, {1, 1}, {1}, 4, "is damaged");
}

TEST(TorchCheckpoint, ReadsEitherByteOrder) {
  const TemporaryPath path("model.pt");
  write_tensor(path.get(), 1, {2}, {1}, 4, "big");
  EXPECT_EQ(dump(read_state_dict(path.get())), "w float32 [2] 4000000040400000\n");
  EXPECT_EQ(dump(read_state_dict(path.get())), "w float32 [2] 4000000040400000\n");  // the file stays
  write_tensor(path.get(), 1, {2}, {1}, 4, "middle");
  EXPECT_THAT([&] { read_state_dict(path.get()); },
              ThrowsMessage<Error>(HasSubstr("byte order \"middle\", expected \"little\" or \"big\"")));
}

TEST(TorchCheckpoint, RefusesOtherFiles) {
  const TemporaryPath path("model.pt");
  EXPECT_THROW(read_state_dict(path.get()), Error);
  for (const char* content : {"", "text", "PK\x03\x04"}) {
    path.overwrite(content);
    EXPECT_THAT([&] { read_state_dict(path.get()); }, ThrowsMessage<Error>(HasSubstr("not a zip archive")));
  }
  path.overwrite(std::string(257, 'x') + "ustar" + std::string(250, '\0'));
  EXPECT_THAT([&] { read_state_dict(path.get()); }, ThrowsMessage<Error>(HasSubstr("a tar archive")));
  const auto expect_refused = [&](const char* entry, const char* message) {
    ZipWriter zip(path.get());
    zip.add(entry, "x");
    zip.commit();
    EXPECT_THAT([&] { read_state_dict(path.get()); }, ThrowsMessage<Error>(HasSubstr(message)));
  };
  expect_refused("readme", "without data.pkl");
  expect_refused("linear/models/model.json", "torch.onnx.export(torch.export.load(file), f=\"model.onnx\")");
  expect_refused("model.weights.h5", "model.export(\"model.onnx\", format=\"onnx\")");
}

/// Random changes of the bytes that decide: pickle and directory, with checksums made right again or not.
TEST(TorchCheckpoint, SurvivesMutations) {
  const TemporaryPath path("model.pt");
  write_state_dict(path.get(),
                   {{"a", counting(DType::kFloat32, {2, 3})}, {"b", counting(DType::kBool, {5})}});
  const std::string archive = read_file(path.get());
  std::string pickle;
  {
    const ZipReader zip(path.get());
    const auto bytes = zip.read(zip.entries()[0]);
    pickle.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  std::mt19937 random(5);
  const auto mutate = [&](std::string text) {
    if (random() % 8 == 0) text.resize(random() % text.size() + 1);
    for (auto i = random() % 5; i > 0; --i) text[random() % text.size()] = static_cast<char>(random());
    return text;
  };
  for (int i = 0; i < 4000; ++i) {
    path.overwrite(mutate(archive));
    try {
      read_state_dict(path.get());
    } catch (const Error&) {
    }
    const std::string changed = mutate(pickle);
    try {
      unpickle(std::as_bytes(std::span(changed)), "p", 1 << 20);
    } catch (const Error&) {
    }
    if (i % 20 != 0) continue;  // a flush to the disk each
    ZipWriter zip(path.get());
    zip.add("m/data.pkl", changed);
    zip.add("m/data/0", std::string(24, 'x'));
    zip.add("m/data/1", std::string(5, '\1'));
    zip.commit();
    try {
      read_state_dict(path.get());
    } catch (const Error&) {
    }
  }
}

}  // namespace
}  // namespace detent
