#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "detent/core/tensor.h"

namespace detent {

/// PyTorch's classes of typed storage, module torch.
inline constexpr std::array<std::pair<std::string_view, DType>, 10> kTorchStorages = {{
    {"BoolStorage", DType::kBool},
    {"ByteStorage", DType::kUInt8},
    {"CharStorage", DType::kInt8},
    {"ShortStorage", DType::kInt16},
    {"IntStorage", DType::kInt32},
    {"LongStorage", DType::kInt64},
    {"HalfStorage", DType::kFloat16},
    {"BFloat16Storage", DType::kBFloat16},
    {"FloatStorage", DType::kFloat32},
    {"DoubleStorage", DType::kFloat64},
}};

}  // namespace detent
