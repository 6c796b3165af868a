#include "detent/training/optimizer_state.h"

#include <map>
#include <sstream>
#include <type_traits>
#include <utility>

#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include "detent/autograd/torch_tensor.h"
#include "detent/core/error.h"

namespace detent {
namespace {

/// libtorch keeps the state of a parameter under the address of its TensorImpl: as text before version 2.1,
/// as a pointer since.
using StateKey = std::remove_cvref_t<decltype(std::declval<torch::optim::Optimizer&>().state())>::key_type;

template <class Key = StateKey>
Key key_of(const at::Tensor& parameter) {
  if constexpr (std::is_same_v<Key, std::string>) {
    std::ostringstream text;
    text << parameter.unsafeGetTensorImpl();
    return text.str();
  } else {
    return parameter.unsafeGetTensorImpl();
  }
}

/// Reads or writes the entries of one parameter: `visit(name, tensor)` and `visit(name, integer)`.
template <class State, class Visitor>
void visit_adam(State& state, Visitor& visit) {
  visit("step", state.step());
  visit("exp_avg", state.exp_avg());
  visit("exp_avg_sq", state.exp_avg_sq());
  visit("max_exp_avg_sq", state.max_exp_avg_sq());
}

template <class State, class Visitor>
void visit_entries(State& state, Visitor& visit) {
  if constexpr (std::is_same_v<std::remove_const_t<State>, torch::optim::SGDParamState>) {
    visit("momentum_buffer", state.momentum_buffer());
  } else {
    visit_adam(state, visit);
  }
}

struct Writer {
  StateDict& target;
  std::string prefix;

  void operator()(const char* name, const at::Tensor& tensor) {
    if (tensor.defined()) target.emplace_back(prefix + name, from_torch(tensor));
  }
  void operator()(const char* name, int64_t number) {
    target.emplace_back(prefix + name, Tensor::from<int64_t>({}, std::vector<int64_t>{number}));
  }
};

/// Entries that are read are removed from `left`.
struct Reader {
  std::map<std::string, Tensor>& left;
  std::string prefix;
  const at::Tensor& parameter;
  const std::string& source;
  int found = 0;

  void operator()(const char* name, at::Tensor& tensor) {
    const std::optional<Tensor> read = take(name, DType::kFloat32, parameter.sizes().vec());
    if (read) tensor = to_torch(*read).clone();
  }
  void operator()(const char* name, int64_t& number) {
    const std::optional<Tensor> read = take(name, DType::kInt64, {});
    if (read) number = std::as_const(*read).values<int64_t>()[0];
  }

 private:
  std::optional<Tensor> take(const char* name, DType dtype, const Shape& shape) {
    const auto it = left.find(prefix + name);
    if (it == left.end()) return std::nullopt;
    Tensor tensor = it->second;
    if (tensor.dtype() != dtype || tensor.shape() != shape) {
      fail("{}: \"{}\" of the optimizer is {} {}, expected {} {}", source, it->first,
           dtype_name(tensor.dtype()), shape_text(tensor.shape()), dtype_name(dtype), shape_text(shape));
    }
    left.erase(it);
    ++found;
    return tensor;
  }
};

/// Calls `body.operator()<State>()` with the kind's type of state.
template <class Body>
void with_state_type(OptimizerKind kind, const Body& body) {
  switch (kind) {
    case OptimizerKind::kAdam:
      return body.template operator()<torch::optim::AdamParamState>();
    case OptimizerKind::kAdamW:
      return body.template operator()<torch::optim::AdamWParamState>();
    case OptimizerKind::kSgd:
      return body.template operator()<torch::optim::SGDParamState>();
  }
}

}  // namespace

StateDict optimizer_state(const torch::optim::Optimizer& optimizer, OptimizerKind kind,
                          std::span<const std::pair<std::string, at::Tensor>> parameters) {
  StateDict result;
  with_state_type(kind, [&]<class State>() {
    for (const auto& [name, parameter] : parameters) {
      const auto it = optimizer.state().find(key_of(parameter));
      if (it == optimizer.state().end()) continue;
      Writer write{result, name + "."};
      visit_entries(static_cast<const State&>(*it->second), write);
    }
  });
  return result;
}

void load_optimizer_state(torch::optim::Optimizer& optimizer, OptimizerKind kind,
                          std::span<const std::pair<std::string, at::Tensor>> parameters,
                          const StateDict& state, const std::string& source) {
  std::map<std::string, Tensor> left(state.begin(), state.end());
  with_state_type(kind, [&]<class State>() {
    for (const auto& [name, parameter] : parameters) {
      auto entries = std::make_unique<State>();
      Reader read{left, name + ".", parameter, source};
      visit_entries(*entries, read);
      const int needed = std::is_same_v<State, torch::optim::SGDParamState> ? 1 : 3;
      if (read.found > 0 && read.found < needed) {
        fail("{}: of the optimizer's \"{}\" it holds {} of {} entries", source, name, read.found, needed);
      }
      if (read.found > 0) optimizer.state()[key_of(parameter)] = std::move(entries);
    }
  });
  if (!left.empty()) {
    fail("{}: \"{}\" of the optimizer belongs to no parameter of the network", source, left.begin()->first);
  }
}

}  // namespace detent
