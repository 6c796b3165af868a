#include <cmath>

#include "detent/core/error.h"
#include "detent/models/models.h"

namespace detent {
namespace {

/// Sizes of a vision transformer; its multilayer perceptrons are 4 times as wide as its tokens.
struct VitSize {
  std::string name;
  int64_t patch;  // pixels on each side
  int64_t width;  // of a token
  int64_t depth;
  int64_t heads;
};

class VitBuilder {
 public:
  VitBuilder(VitSize size, const Shape& sample_shape, int64_t class_count)
      : size_(std::move(size)), sample_shape_(sample_shape), class_count_(class_count), builder_(size_.name) {
    if (image_channels(sample_shape) < 1 || sample_shape[1] % size_.patch != 0 ||
        sample_shape[2] % size_.patch != 0) {
      fail("got images of shape {}, expected height and width divisible by the patch size {}",
           shape_text(sample_shape), size_.patch);
    }
    tokens_ = 1 + (sample_shape[1] / size_.patch) * (sample_shape[2] / size_.patch);
  }

  Graph build() {
    const NodeInput input = builder_.input("x", sample_shape_);
    batch_ = builder_.call("size", {input, constant(0)});
    NodeInput x = embed(input);
    for (int64_t i = 0; i < size_.depth; ++i) x = block(fmt::format("blocks.{}", i), x);
    x = norm("norm", x);
    x = builder_.call("select", {x}, {{"dim", 1}, {"index", 0}});
    x = builder_.linear("head", x, size_.width, class_count_);
    return builder_.finish(x);
  }

 private:
  /// [n, c, h, w] -> [n, tokens, width]: a class token, then one token a patch, row by row.
  NodeInput embed(const NodeInput& input) {
    NodeInput x = builder_.convolution("patch_embed.proj", input, sample_shape_[0], size_.width,
                                       {size_.patch, size_.patch}, {{"stride", size_.patch}});
    x = builder_.call("flatten", {x}, {{"start_dim", 2}});
    x = builder_.call("transpose", {x}, {{"dim0", 1}, {"dim1", 2}});
    NodeInput token = builder_.parameter("cls_token", {1, 1, size_.width});
    token = builder_.call("expand", {token, batch_, constant(-1), constant(-1)});
    x = builder_.call("cat", {token, x}, {{"dim", 1}});
    return builder_.call("add", {x, builder_.parameter("pos_embed", {1, tokens_, size_.width})});
  }

  NodeInput block(const std::string& name, const NodeInput& x) {
    const NodeInput attended = attention(name + ".attn", norm(name + ".norm1", x));
    const NodeInput y = builder_.call("add", {x, attended});
    return builder_.call("add", {y, perceptron(name + ".mlp", norm(name + ".norm2", y))});
  }

  /// softmax(q k^T / sqrt(width of a head)) v for each head (Vaswani et al. 2017, arXiv:1706.03762).
  NodeInput attention(const std::string& name, const NodeInput& x) {
    const int64_t head_width = size_.width / size_.heads;
    NodeInput qkv = builder_.linear(name + ".qkv", x, size_.width, 3 * size_.width);
    qkv = builder_.call("reshape", {qkv, batch_, constant(tokens_), constant(3), constant(size_.heads),
                                    constant(head_width)});
    const List order = {Value(2), Value(0), Value(3), Value(1), Value(4)};
    qkv = builder_.call("permute", {qkv}, {{"dims", order}});  // [3, n, heads, tokens, head_width]
    const auto part = [&](int64_t i) { return builder_.call("select", {qkv}, {{"dim", 0}, {"index", i}}); };
    const NodeInput q = part(0);
    const NodeInput k = part(1);
    const NodeInput v = part(2);
    const double scale = 1 / std::sqrt(static_cast<double>(head_width));
    const NodeInput scaled = builder_.call("mul", {q, NodeInput::of_constant(Value(scale))});
    const NodeInput columns = builder_.call("transpose", {k}, {{"dim0", -2}, {"dim1", -1}});
    const NodeInput weights = builder_.call("softmax", {builder_.call("matmul", {scaled, columns})});
    NodeInput y = builder_.call("matmul", {weights, v});
    y = builder_.call("transpose", {y}, {{"dim0", 1}, {"dim1", 2}});
    y = builder_.call("reshape", {y, batch_, constant(tokens_), constant(size_.width)});
    return builder_.linear(name + ".proj", y, size_.width, size_.width);
  }

  NodeInput perceptron(const std::string& name, NodeInput x) {
    x = builder_.linear(name + ".fc1", x, size_.width, 4 * size_.width);
    x = builder_.module("gelu", name + ".act", x);
    return builder_.linear(name + ".fc2", x, 4 * size_.width, size_.width);
  }

  NodeInput norm(const std::string& name, const NodeInput& x) {
    return builder_.layer("layer_norm", name, {x}, {{"weight", {size_.width}}, {"bias", {size_.width}}},
                          {{"normalized_shape", size_.width}, {"eps", 1e-6}});
  }

  VitSize size_;
  Shape sample_shape_;
  int64_t class_count_;
  int64_t tokens_ = 0;
  GraphBuilder builder_;
  NodeInput batch_;
};

}  // namespace

// Dosovitskiy et al. 2020, arXiv:2010.11929, of the size of DeiT-Tiny (Touvron et al. 2020,
// arXiv:2012.12877); names as in DeiT's published weights.
Graph build_vit_tiny(const Shape& sample_shape, int64_t class_count) {
  return VitBuilder({.name = "vit_tiny", .patch = 16, .width = 192, .depth = 12, .heads = 3}, sample_shape,
                    class_count)
      .build();
}

Graph build_vit_cifar(const Shape& sample_shape, int64_t class_count) {
  return VitBuilder({.name = "vit_cifar", .patch = 4, .width = 128, .depth = 6, .heads = 4}, sample_shape,
                    class_count)
      .build();
}

}  // namespace detent
