#include "detent/core/error.h"
#include "detent/graph/builder.h"
#include "detent/models/models.h"

namespace detent {
namespace {

// Classifiers of jets (16 features, 5 classes) as in LogicNets (Umuroglu et al. 2020, arXiv:2004.03021);
// layers and names as in MASE, whose ReLU behind the last layer is kept.

int64_t feature_count(const Shape& sample_shape) {
  if (sample_shape.size() != 1) {
    fail("got samples of shape {}, expected a list of features", shape_text(sample_shape));
  }
  return sample_shape[0];
}

/// Appends the modules of a sequence, numbered as they come.
class Sequence {
 public:
  Sequence(GraphBuilder& builder, std::string name, NodeInput input, int64_t width)
      : builder_(builder), name_(std::move(name)), x_(std::move(input)), width_(width) {}

  Sequence& norm() {
    x_ = builder_.batch_norm("batch_norm1d", next(), x_, width_);
    return *this;
  }
  Sequence& relu() {
    x_ = builder_.module("relu", next(), x_);
    return *this;
  }
  Sequence& linear(int64_t out) {
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

}  // namespace

Graph build_jsc_toy(const Shape& sample_shape, int64_t class_count) {
  GraphBuilder builder("jsc_toy");
  Sequence layers(builder, "seq_blocks", builder.input("x", sample_shape), feature_count(sample_shape));
  layers.norm().relu();
  layers.linear(8).norm().relu();
  layers.linear(8).norm().relu();
  layers.linear(class_count).norm().relu();
  return builder.finish(layers.result());
}

Graph build_jsc_tiny(const Shape& sample_shape, int64_t class_count) {
  GraphBuilder builder("jsc_tiny");
  Sequence layers(builder, "seq_blocks", builder.input("x", sample_shape), feature_count(sample_shape));
  layers.norm().relu().linear(class_count).relu();
  return builder.finish(layers.result());
}

/// The hidden layers but the first are without batch norm.
Graph build_jsc_s(const Shape& sample_shape, int64_t class_count) {
  GraphBuilder builder("jsc_s");
  Sequence layers(builder, "module_list", builder.input("x", sample_shape), feature_count(sample_shape));
  layers.norm().relu();
  layers.linear(64).norm().relu();
  for (int i = 0; i < 3; ++i) layers.linear(32).relu();
  layers.linear(class_count).norm().relu();
  return builder.finish(layers.result());
}

}  // namespace detent
