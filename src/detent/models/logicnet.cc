#include <initializer_list>

#include "detent/graph/builder.h"
#include "detent/models/dense_sequence.h"
#include "detent/models/models.h"

namespace detent {
namespace {

/// Linear layers with batch norm, ReLUs between them. Trained with few inputs an output and few bits a value
/// each output is a truth table (docs/lut_networks.md).
Graph dense_network(const char* name, const Shape& sample_shape, std::initializer_list<int64_t> hidden,
                    int64_t class_count) {
  GraphBuilder builder(name);
  const NodeInput x = builder.call("flatten", {builder.input("x", sample_shape)});
  DenseSequence layers(builder, "layers", x, element_count(sample_shape));
  for (const int64_t width : hidden) layers.linear(width).norm().relu();
  layers.linear(class_count).norm();
  return builder.finish(layers.result());
}

}  // namespace

Graph build_digits_logicnet(const Shape& sample_shape, int64_t class_count) {
  return dense_network("digits_logicnet", sample_shape, {480, 240, 120}, class_count);
}

Graph build_mnist_logicnet(const Shape& sample_shape, int64_t class_count) {
  return dense_network("mnist_logicnet", sample_shape, {1200, 600, 300, 150}, class_count);
}

}  // namespace detent
