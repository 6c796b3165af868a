#include "detent/checkpoints/torch_checkpoint_tree.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>
#include <vector>

#include "detent/core/error.h"
#include "detent/core/log.h"

namespace detent {
namespace {

constexpr size_t kMaxTensorRank = 64;
constexpr int kMaxWrappers = 4;
constexpr int kMaxTreeDepth = 6;
constexpr std::array<std::string_view, 3> kStateDictKeys = {"state_dict", "model_state_dict", "model"};
constexpr std::string_view kAdvice = "in Python: torch.save(model.state_dict(), file)";

const PickleGlobal* callable_of(const PickleValue& value) {
  const auto* object = value.get_if<PickleObject>();
  return object == nullptr ? nullptr : object->callable->get_if<PickleGlobal>();
}

bool is_rebuild(const PickleGlobal& callable) {
  return (callable.module == "torch._utils" && callable.name.starts_with("_rebuild_")) ||
         (callable.module == "torch._tensor" && callable.name.starts_with("_rebuild_from_type"));
}

bool has_tensors(const PickleDict& dict) {
  return std::ranges::any_of(dict.entries,
                             [](const auto& entry) { return is_pickled_tensor(*entry.second); });
}

/// Looks for dicts with tensors below one that has none. Each dict is visited once: a hostile file shares
/// them, or lets them hold themselves.
class NestedSearch {
 public:
  struct Found {
    std::string path;
    const PickleDict* dict;
  };

  std::vector<Found> run(const PickleDict& top) {
    visit(top, "", 0);
    return std::move(found_);
  }

 private:
  // Limits of what is only listed in a message.
  static constexpr size_t kMostFound = 10;
  static constexpr size_t kLongestName = 100;

  void visit(const PickleDict& dict, const std::string& path, int depth) {
    const bool optimizer = find_entry(dict, "param_groups") != nullptr;
    if (optimizer || found_.size() > kMostFound || depth > kMaxTreeDepth || !visited_.insert(&dict).second)
      return;
    if (has_tensors(dict)) {
      found_.push_back({path, &dict});
      return;
    }
    for (const auto& [key, value] : dict.entries) {
      const auto* name = key->get_if<std::string_view>();
      const PickleDict* nested = pickled_dict(*value);
      if (name == nullptr || nested == nullptr) continue;
      visit(*nested, fmt::format("{}{}{:.{}}", path, path.empty() ? "" : "/", *name, kLongestName),
            depth + 1);
    }
  }

  std::set<const PickleDict*> visited_;
  std::vector<Found> found_;
};

/// The dict under one of kStateDictKeys, or nullptr.
const PickleDict* named_state_dict(const PickleDict& dict, const std::string& file) {
  for (const std::string_view key : kStateDictKeys) {
    const PickleValue* value = find_entry(dict, key);
    if (value == nullptr || is_pickled_tensor(*value)) continue;
    if (const PickleDict* nested = pickled_dict(*value)) return nested;
    fail("{}: \"{}\" is {}, expected a dict of tensors; {}", file, key, pickle_kind(*value), kAdvice);
  }
  return nullptr;
}

/// A function of torch._utils and what it is called with, wrappers taken off.
class RebuildCall {
 public:
  RebuildCall(const PickleValue& value, const std::string& where) : where_(where) {
    open(value);
    for (int wrappers = 0; unwrap(); ++wrappers) {
      if (wrappers == kMaxWrappers) fail("{} is damaged: a parameter of a parameter", where_);
    }
    if (function_->name != "_rebuild_tensor" && function_->name != "_rebuild_tensor_v2" &&
        function_->name != "_rebuild_tensor_v3") {
      fail("{} is made by {}.{}; only dense, unquantized tensors are supported", where_, function_->module,
           function_->name);
    }
    if (arguments_->size() < 4) fail("{} is damaged: a tensor of {} arguments", where_, arguments_->size());
  }

  bool is(std::string_view name) const { return function_->name == name; }
  size_t size() const { return arguments_->size(); }
  const PickleValue& operator[](size_t i) const { return *(*arguments_)[i]; }

 private:
  void open(const PickleValue& value) {
    function_ = is_pickled_tensor(value) ? callable_of(value) : nullptr;
    if (function_ == nullptr) fail("{} is {}, expected a tensor", where_, pickle_kind(value));
    set_arguments(*value.get_if<PickleObject>()->arguments);
  }
  void set_arguments(const PickleValue& value) {
    const auto* tuple = value.get_if<PickleTuple>();
    if (tuple == nullptr || tuple->items.empty()) {
      fail("{} is damaged: {} without arguments", where_, function_->name);
    }
    arguments_ = &tuple->items;
  }

  bool unwrap() {
    // (data, requires_grad, backward_hooks)
    if (is("_rebuild_parameter") || is("_rebuild_parameter_with_state")) {
      open(*arguments_->front());
      return true;
    }
    // (function, type, arguments, attributes): a subclass of Tensor, or a tensor with attributes of its own
    if (function_->module != "torch._tensor") return false;
    const auto* function = arguments_->front()->get_if<PickleGlobal>();
    if (function == nullptr || !is_rebuild(*function) || size() < 3) {
      fail("{} is damaged: {} of {}", where_, function_->name, pickle_kind(*arguments_->front()));
    }
    function_ = function;
    set_arguments(*(*arguments_)[2]);
    return true;
  }

  const std::string& where_;
  const PickleGlobal* function_ = nullptr;
  const PickleItems* arguments_ = nullptr;
};

Shape integers(const PickleValue& value, const std::string& where) {
  const auto* tuple = value.get_if<PickleTuple>();
  const auto* list = value.get_if<PickleList>();
  if (tuple == nullptr && list == nullptr) fail("{} is damaged: its shape is {}", where, pickle_kind(value));
  const PickleItems& items = tuple != nullptr ? tuple->items : list->items;
  if (items.size() > kMaxTensorRank) fail("{} is damaged: a shape of {} dimensions", where, items.size());
  Shape result;
  for (const PickleValue* item : items) {
    const auto* size = item->get_if<int64_t>();
    if (size == nullptr || *size < 0) fail("{} is damaged: its shape has {}", where, pickle_kind(*item));
    result.push_back(*size);
  }
  return result;
}

/// The last argument may be {"conj": ..., "neg": ...}: the storage then does not hold the values themselves.
void check_not_lazy(const RebuildCall& call, size_t index, const std::string& where) {
  const PickleDict* flags = index < call.size() ? pickled_dict(call[index]) : nullptr;
  if (flags == nullptr) return;
  for (const auto& [key, value] : flags->entries) {
    const auto* set = value->get_if<bool>();
    if (set != nullptr && *set) {
      fail("{} is a lazily conjugated or negated view; in Python, save tensor.resolve_conj().resolve_neg()",
           where);
    }
  }
}

/// The dtype beside an untyped storage.
const TorchStorageClass* named_dtype(std::string_view dtype) {
  const auto* found = std::ranges::find(kTorchStorages, dtype, &TorchStorageClass::dtype);
  return found == kTorchStorages.end() ? nullptr : found;
}

void set_dtype(PickledTensor& tensor, const RebuildCall& call, const std::string& where) {
  const TorchStorageClass* dtype = tensor.storage_class;
  tensor.dtype = dtype->dtype;
  tensor.supported = dtype->supported;
  tensor.element_size = dtype->element_size;
  if (!call.is("_rebuild_tensor_v3")) return;
  const auto* global = call.size() > 6 ? call[6].get_if<PickleGlobal>() : nullptr;
  if (global == nullptr || global->module != "torch") fail("{} is damaged: a tensor without a dtype", where);
  tensor.dtype = global->name;
  const TorchStorageClass* known = named_dtype(global->name);
  tensor.supported = known == nullptr ? std::nullopt : known->supported;
  tensor.element_size = known == nullptr ? 1 : known->element_size;
}

}  // namespace

const PickleDict* pickled_dict(const PickleValue& value) {
  static const PickleDict kEmpty;
  if (const auto* dict = value.get_if<PickleDict>()) return dict;
  const PickleGlobal* callable = callable_of(value);
  if (callable == nullptr || callable->module != "collections" || callable->name != "OrderedDict")
    return nullptr;
  const auto* object = value.get_if<PickleObject>();
  const auto* arguments = object->arguments->get_if<PickleTuple>();
  if (arguments == nullptr || !arguments->items.empty()) return nullptr;
  return object->contents == nullptr ? &kEmpty : &object->contents->dict;
}

const PickleValue* find_entry(const PickleDict& dict, std::string_view wanted) {
  for (const auto& [key, value] : dict.entries) {
    const auto* name = key->get_if<std::string_view>();
    if (name != nullptr && *name == wanted) return value;
  }
  return nullptr;
}

std::string pickled_keys(const PickleDict& dict) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : dict.entries) {
    if (keys.size() == 10) {
      keys.emplace_back("...");
      break;
    }
    const auto* text = key->get_if<std::string_view>();
    keys.push_back(text == nullptr ? pickle_kind(*key) : std::string(*text));
  }
  return fmt::format("{}", fmt::join(keys, ", "));
}

bool is_pickled_tensor(const PickleValue& value) {
  const PickleGlobal* callable = callable_of(value);
  return callable != nullptr && is_rebuild(*callable);
}

const PickleDict& find_state_dict(const TorchArchive& archive) {
  const PickleDict* top = pickled_dict(archive.root());
  if (top == nullptr) {
    fail("{}: holds {}, expected a state_dict; {}", archive.name(), pickle_kind(archive.root()), kAdvice);
  }
  for (int depth = 0; depth < kMaxTreeDepth; ++depth) {
    const PickleDict* named = named_state_dict(*top, archive.name());
    if (named == nullptr || named == top) break;
    top = named;
  }
  if (has_tensors(*top) || top->entries.empty()) return *top;
  const std::vector<NestedSearch::Found> found = NestedSearch().run(*top);
  if (found.size() == 1) return *found.front().dict;
  if (found.empty()) {
    fail("{}: holds a dict without tensors, and no dict with tensors below it; its keys: {}; {}",
         archive.name(), pickled_keys(*top), kAdvice);
  }
  std::vector<std::string> paths;
  for (const auto& [path, dict] : found) paths.push_back(path);
  fail("{}: holds several dicts of tensors: {}; save the one that is wanted by itself", archive.name(),
       fmt::join(paths, ", "));
}

PickledTensor parse_tensor(const PickleValue& value, const std::string& file, const std::string& where) {
  const RebuildCall call(value, where);
  PickledTensor tensor;
  const auto* persistent = call[0].get_if<PicklePersistent>();
  if (persistent == nullptr) fail("{} is damaged: its storage is {}", where, pickle_kind(call[0]));
  tensor.id = parse_storage_id(*persistent->id, file);
  tensor.storage_class = find_torch_storage(tensor.id.storage_class);
  if (tensor.storage_class == nullptr)
    fail("{} has a {}, which is not known", where, tensor.id.storage_class);
  check_not_lazy(call, call.is("_rebuild_tensor_v3") ? 7 : 6, where);
  set_dtype(tensor, call, where);
  tensor.shape = integers(call[2], where);
  tensor.strides = integers(call[3], where);
  const auto* offset = call[1].get_if<int64_t>();
  if (offset == nullptr || *offset < 0 || tensor.shape.size() != tensor.strides.size()) {
    fail("{} is damaged: shape {}, strides {}", where, shape_text(tensor.shape), shape_text(tensor.strides));
  }
  tensor.offset = *offset;
  return tensor;
}

void warn_of_other_weights(const TorchArchive& archive, const PickleDict& taken) {
  constexpr size_t kMostParts = 100;  // each is searched for; a training's file has some ten
  const PickleDict* root = pickled_dict(archive.root());
  if (root == &taken || root->entries.size() > kMostParts) return;
  const auto is_tensor = [](const auto& entry) { return is_pickled_tensor(*entry.second); };
  for (const auto& [key, value] : root->entries) {
    const auto* name = key->get_if<std::string_view>();
    const PickleDict* other = pickled_dict(*value);
    if (name == nullptr || other == nullptr || other == &taken) continue;
    const auto first = std::ranges::find_if(other->entries, is_tensor);
    const auto* tensor = first == other->entries.end() ? nullptr : first->first->get_if<std::string_view>();
    if (tensor != nullptr && find_entry(taken, *tensor) != nullptr)
      log_warning("{}: \"{}\", tensors of the same names, are left out; save them by themselves to load them",
                  archive.name(), *name);
  }
}

}  // namespace detent
