#include <algorithm>
#include <array>
#include <set>

#include "detent/checkpoints/torch_checkpoint.h"
#include "detent/core/error.h"

namespace detent {
namespace {

constexpr std::string_view kTrainedPrefix = "model.";
/// Prefixes of every name by nn.DataParallel, torch.compile and Lightning modules with one network.
constexpr std::array<std::string_view, 3> kWrapperPrefixes = {"module.", "_orig_mod.", kTrainedPrefix};

}  // namespace

StateDict without_wrapper_prefixes(StateDict state) {
  const auto common_prefix = [&]() -> size_t {
    for (const std::string_view prefix : kWrapperPrefixes) {
      const auto has_prefix = [&](const auto& entry) { return entry.first.starts_with(prefix); };
      if (!state.empty() && std::ranges::all_of(state, has_prefix)) return prefix.size();
    }
    return 0;
  };
  while (const size_t size = common_prefix()) {
    for (auto& [name, tensor] : state) name.erase(0, size);
  }
  return state;
}

StateDict without_model_prefix(StateDict state) {
  std::set<std::string_view> names;
  for (auto& [name, tensor] : state) {
    if (name.starts_with(kTrainedPrefix)) name.erase(0, kTrainedPrefix.size());
  }
  for (const auto& [name, tensor] : state) {
    if (!names.insert(name).second) fail("two tensors are called \"{}\" without the prefix \"model.\"", name);
  }
  return state;
}

}  // namespace detent
