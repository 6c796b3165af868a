#pragma once

#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>

#include "detent/core/tensor.h"

namespace detent {

/// A tensor of the network. Optimizers update trainable ones; others are constants or state (running
/// statistics).
struct Parameter {
  Tensor tensor;
  bool trainable = true;
};

/// A shared reference to a T; copies refer to the same object.
template <class T>
class SharedRef {
 public:
  SharedRef() : shared_(std::make_shared<T>()) {}
  SharedRef(T value) : shared_(std::make_shared<T>(std::move(value))) {}
  template <class Other>
  requires(!std::same_as<std::remove_cvref_t<Other>, T> &&
           !std::same_as<std::remove_cvref_t<Other>, SharedRef> && std::convertible_to<Other, T>)
      SharedRef(Other&& value)
      : SharedRef(T(std::forward<Other>(value))) {}

  T& operator*() { return *shared_; }
  const T& operator*() const { return *shared_; }
  T* operator->() { return shared_.get(); }
  const T* operator->() const { return shared_.get(); }
  /// Copies the object if it is shared.
  void separate() {
    if (shared_.use_count() > 1) shared_ = std::make_shared<T>(*shared_);
  }
  /// Whether both refer to the same object.
  bool is(const SharedRef& other) const { return shared_ == other.shared_; }
  /// Whether the objects are equal.
  bool operator==(const SharedRef& other) const { return *shared_ == *other.shared_; }

 private:
  std::shared_ptr<T> shared_;
};

/// Weights are tied if several nodes refer to one parameter.
using ParameterRef = SharedRef<Parameter>;

}  // namespace detent
