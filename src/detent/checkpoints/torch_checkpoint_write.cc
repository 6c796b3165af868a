#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "detent/checkpoints/pickle.h"
#include "detent/checkpoints/torch_checkpoint.h"
#include "detent/checkpoints/torch_storage.h"
#include "detent/core/error.h"
#include "detent/files/zip.h"

namespace detent {
namespace {

constexpr std::string_view kModelPrefix = "model.";

class CheckpointWriter {
 public:
  PickleWriter& pickle() { return pickle_; }

  void state_dict(const StateDict& state, std::string_view prefix) {
    ordered_dict();
    pickle_.mark();
    std::set<std::string_view> names;
    for (const auto& [name, value] : state) {
      if (!names.insert(name).second) fail("cannot write a state_dict with two tensors \"{}\"", name);
      pickle_.text(std::string(prefix) + name);
      tensor(value);
    }
    pickle_.set_items();
  }

  /// _rebuild_tensor_v2(storage, offset, size, stride, requires_grad, backward_hooks)
  void tensor(const Tensor& tensor) {
    pickle_.global("torch._utils", "_rebuild_tensor_v2");
    pickle_.mark();
    storage(tensor);
    pickle_.integer(0);
    Shape strides(tensor.shape().size(), 1);
    for (size_t i = strides.size(); i-- > 1;)
      strides[i - 1] = strides[i] * std::max<int64_t>(tensor.shape()[i], 1);
    integers(tensor.shape());
    integers(strides);
    pickle_.boolean(false);
    ordered_dict();
    pickle_.tuple();
    pickle_.reduce();
  }

  void write(const std::filesystem::path& path) {
    const std::string stem = path.stem().string();
    ZipWriter zip(path);
    zip.add(stem + "/data.pkl", pickle_.finish());
    for (size_t i = 0; i < storages_.size(); ++i)
      zip.add(fmt::format("{}/data/{}", stem, i), storages_[i].bytes());
    zip.add(stem + "/version", "3\n");
    zip.commit();
  }

 private:
  void ordered_dict() {
    pickle_.global("collections", "OrderedDict");
    pickle_.empty_tuple();
    pickle_.reduce();
  }

  void integers(const Shape& values) {
    pickle_.mark();
    for (const int64_t value : values) pickle_.integer(value);
    pickle_.tuple();
  }

  void storage(const Tensor& tensor) {
    const auto key = std::tuple(tensor.bytes().data(), tensor.byte_size(), tensor.dtype());
    const auto [found, is_new] = indices_.try_emplace(key, storages_.size());
    if (is_new) storages_.push_back(tensor);
    const auto* storage_class =
        std::ranges::find(kTorchStorages, tensor.dtype(), &TorchStorageClass::supported);
    DETENT_CHECK(storage_class != kTorchStorages.end(), "dtype {}", dtype_name(tensor.dtype()));
    pickle_.mark();
    pickle_.text("storage");
    pickle_.global("torch", storage_class->name);
    pickle_.text(std::to_string(found->second));
    pickle_.text("cpu");
    pickle_.integer(tensor.numel());
    pickle_.tuple();
    pickle_.persistent();
  }

  PickleWriter pickle_;
  std::vector<Tensor> storages_;
  std::map<std::tuple<const std::byte*, size_t, DType>, size_t> indices_;
};

/// {"state": {0: {"step": ...}, ...}, "param_groups": [{..., "params": [0, ...]}]}
void write_optimizer(CheckpointWriter& writer, const OptimizerState& optimizer) {
  PickleWriter& pickle = writer.pickle();
  pickle.empty_dict();
  pickle.mark();
  pickle.text("state");
  pickle.empty_dict();
  pickle.mark();
  for (size_t i = 0; i < optimizer.parameters.size(); ++i) {
    pickle.integer(static_cast<int64_t>(i));
    pickle.empty_dict();
    pickle.mark();
    for (const auto& [name, tensor] : optimizer.parameters[i]) {
      pickle.text(name);
      writer.tensor(tensor);
    }
    pickle.set_items();
  }
  pickle.set_items();
  pickle.text("param_groups");
  Table group = optimizer.settings;
  List parameters;
  for (size_t i = 0; i < optimizer.parameters.size(); ++i) parameters.emplace_back(static_cast<int64_t>(i));
  group["params"] = std::move(parameters);
  pickle.empty_list();
  pickle.mark();
  pickle.value(group);
  pickle.appends();
  pickle.set_items();
}

}  // namespace

void write_state_dict(const std::filesystem::path& path, const StateDict& state) {
  CheckpointWriter writer;
  writer.state_dict(state, "");
  writer.write(path);
}

void write_lightning_checkpoint(const std::filesystem::path& path, const LightningCheckpoint& checkpoint) {
  CheckpointWriter writer;
  PickleWriter& pickle = writer.pickle();
  pickle.empty_dict();
  pickle.mark();
  pickle.text("epoch");
  pickle.integer(checkpoint.epoch);
  pickle.text("global_step");
  pickle.integer(checkpoint.global_step);
  pickle.text("pytorch-lightning_version");
  pickle.text(checkpoint.lightning_version);
  pickle.text("state_dict");
  writer.state_dict(checkpoint.state, kModelPrefix);
  pickle.text("loops");
  pickle.empty_dict();
  pickle.text("callbacks");
  pickle.empty_dict();
  pickle.text("optimizer_states");
  pickle.empty_list();
  if (checkpoint.optimizer) {
    pickle.mark();
    write_optimizer(writer, *checkpoint.optimizer);
    pickle.appends();
  }
  pickle.text("lr_schedulers");
  pickle.empty_list();
  pickle.set_items();
  writer.write(path);
}

}  // namespace detent
