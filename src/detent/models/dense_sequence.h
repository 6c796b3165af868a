#pragma once

#include <string>
#include <utility>

#include <fmt/format.h>

#include "detent/graph/builder.h"

namespace detent {

/// Appends the modules of a sequence on rows [N, width], numbered as they come: "layers.0", "layers.1".
class DenseSequence {
 public:
  DenseSequence(GraphBuilder& builder, std::string name, NodeInput input, int64_t width)
      : builder_(builder), name_(std::move(name)), x_(std::move(input)), width_(width) {}

  DenseSequence& norm() {
    x_ = builder_.batch_norm("batch_norm1d", next(), x_, width_);
    return *this;
  }
  DenseSequence& relu() { return module("relu"); }
  DenseSequence& module(const char* op, Table attributes = {}) {
    x_ = builder_.module(op, next(), x_, std::move(attributes));
    return *this;
  }
  DenseSequence& linear(int64_t out) {
    x_ = builder_.linear(next(), x_, width_, out);
    width_ = out;
    return *this;
  }
  const NodeInput& result() const { return x_; }

 private:
  std::string next() { return fmt::format("{}.{}", name_, index_++); }

  GraphBuilder& builder_;
  std::string name_;
  NodeInput x_;
  int64_t width_;
  int index_ = 0;
};

}  // namespace detent
