#include "detent/core/error.h"
#include "detent/graph/builder.h"
#include "detent/models/dense_sequence.h"
#include "detent/models/models.h"

namespace detent {
namespace {

// Classifiers of jets (16 features, 5 classes) as in LogicNets (Umuroglu et al. 2020, arXiv:2004.03021);
// layers and names as in MASE, whose ReLU after the last layer is kept.

int64_t feature_count(const Shape& sample_shape) {
  if (sample_shape.size() != 1) {
    fail("got samples of shape {}, expected a list of features", shape_text(sample_shape));
  }
  return sample_shape[0];
}

}  // namespace

Graph build_jsc_toy(const Shape& sample_shape, int64_t class_count) {
  GraphBuilder builder("jsc_toy");
  DenseSequence layers(builder, "seq_blocks", builder.input("x", sample_shape), feature_count(sample_shape));
  layers.norm().relu();
  layers.linear(8).norm().relu();
  layers.linear(8).norm().relu();
  layers.linear(class_count).norm().relu();
  return builder.finish(layers.result());
}

Graph build_jsc_tiny(const Shape& sample_shape, int64_t class_count) {
  GraphBuilder builder("jsc_tiny");
  DenseSequence layers(builder, "seq_blocks", builder.input("x", sample_shape), feature_count(sample_shape));
  layers.norm().relu().linear(class_count).relu();
  return builder.finish(layers.result());
}

Graph build_jsc_trt(const Shape& sample_shape, int64_t class_count) {
  GraphBuilder builder("jsc_trt");
  DenseSequence layers(builder, "seq_blocks", builder.input("x", sample_shape), feature_count(sample_shape));
  layers.norm().relu();
  layers.linear(32).norm().relu();
  layers.linear(48).norm().relu().module("dropout", {{"p", 0.5}});
  layers.linear(16).norm().relu();
  layers.linear(class_count).norm().relu();
  return builder.finish(layers.result());
}

/// The hidden layers but the first are without batch norm.
Graph build_jsc_s(const Shape& sample_shape, int64_t class_count) {
  GraphBuilder builder("jsc_s");
  DenseSequence layers(builder, "module_list", builder.input("x", sample_shape), feature_count(sample_shape));
  layers.norm().relu();
  layers.linear(64).norm().relu();
  for (int i = 0; i < 3; ++i) layers.linear(32).relu();
  layers.linear(class_count).norm().relu();
  return builder.finish(layers.result());
}

}  // namespace detent
