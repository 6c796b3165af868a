#include "detent/autograd/torch_tensor.h"

#include <ATen/ops/from_blob.h>

#include "detent/core/error.h"

namespace detent {
namespace {

constexpr std::pair<DType, at::ScalarType> kTypes[] = {
    {DType::kBool, at::kBool},      {DType::kUInt8, at::kByte},        {DType::kInt8, at::kChar},
    {DType::kInt16, at::kShort},    {DType::kInt32, at::kInt},         {DType::kInt64, at::kLong},
    {DType::kFloat16, at::kHalf},   {DType::kBFloat16, at::kBFloat16}, {DType::kFloat32, at::kFloat},
    {DType::kFloat64, at::kDouble},
};

}  // namespace

at::ScalarType scalar_type(DType dtype) {
  for (const auto& [ours, theirs] : kTypes) {
    if (ours == dtype) return theirs;
  }
  DETENT_CHECK(false, "dtype {}", dtype_name(dtype));
  return at::kFloat;
}

DType dtype_of(const at::Tensor& tensor) {
  for (const auto& [ours, theirs] : kTypes) {
    if (theirs == tensor.scalar_type()) return ours;
  }
  fail("tensors of type {} are not supported", at::toString(tensor.scalar_type()));
}

at::Tensor to_torch(const Tensor& tensor) {
  // libtorch has no read-only tensors; callers do not write to what they passed as const.
  auto* data = const_cast<std::byte*>(tensor.bytes().data());
  return at::from_blob(
      data, tensor.shape(), [owner = tensor.owner()](void*) {},
      at::TensorOptions(scalar_type(tensor.dtype())));
}

std::vector<at::Tensor> to_torch(std::span<const Tensor> tensors) {
  std::vector<at::Tensor> result;
  for (const Tensor& tensor : tensors) result.push_back(to_torch(tensor));
  return result;
}

Tensor from_torch(const at::Tensor& tensor) {
  const at::Tensor dense = tensor.detach().contiguous();
  const auto owner = std::make_shared<const at::Tensor>(dense);
  return Tensor::borrow(dtype_of(dense), dense.sizes().vec(), static_cast<std::byte*>(dense.data_ptr()),
                        owner);
}

}  // namespace detent
