#include "detent/models/model.h"

#include <bit>
#include <cstring>

#include "detent/core/error.h"
#include "detent/graph/graph_parameters.h"

namespace detent {

/// data/trained_digits.f32, embedded by the build.
std::span<const std::byte> trained_digits_f32();

namespace {

static_assert(std::endian::native == std::endian::little);

Graph empty_network() { return build_model("digits_cnn", {1, 8, 8}, 10); }

/// The float32 tensors of a network, which lie one after the other.
std::vector<Tensor> float_tensors(const Graph& graph) {
  std::vector<Tensor> tensors;
  for (const auto& [key, tensor] : state_dict(graph))
    if (tensor.dtype() == DType::kFloat32) tensors.push_back(tensor);
  return tensors;
}

}  // namespace

Graph trained_digits_cnn(int number) {
  DETENT_CHECK(number >= 0 && number < kTrainedDigits, "network {} of {}", number, kTrainedDigits);
  Graph graph = empty_network();
  std::vector<Tensor> tensors = float_tensors(graph);
  size_t size = 0;
  for (const Tensor& tensor : tensors) size += tensor.byte_size();
  const std::span<const std::byte> all = trained_digits_f32();
  DETENT_CHECK(all.size() == size * kTrainedDigits, "{} bytes for {} networks of {}", all.size(),
               kTrainedDigits, size);
  std::span<const std::byte> rest = all.subspan(size * static_cast<size_t>(number), size);
  for (Tensor& tensor : tensors) {
    std::memcpy(tensor.values<float>().data(), rest.data(), tensor.byte_size());
    rest = rest.subspan(tensor.byte_size());
  }
  return graph;
}

std::vector<std::byte> trained_digits_bytes(const Graph& graph) {
  std::vector<std::byte> bytes;
  for (const Tensor& tensor : float_tensors(graph)) {
    const std::span<const std::byte> values = tensor.bytes();
    bytes.insert(bytes.end(), values.begin(), values.end());
  }
  return bytes;
}

}  // namespace detent
