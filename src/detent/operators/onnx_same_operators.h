#pragma once

#include <array>
#include <cstdint>
#include <variant>

namespace detent {

/// An attribute of the same meaning. `otherwise` is ONNX's default, and says which kind both are.
struct SameAttribute {
  const char* onnx = nullptr;
  const char* ours = nullptr;
  std::variant<bool, int64_t, double, const char*> otherwise = false;
};

/// An operator that ONNX calls by another name: the same inputs and results.
struct SameOperator {
  const char* onnx;
  const char* op;
  std::array<SameAttribute, 3> attributes = {};
  int64_t since = 0;  // opset of ONNX that first has it, where export may meet an older one
};

constexpr SameAttribute kSelectLastIndex = {"select_last_index", "select_last_index", false};
constexpr SameAttribute kReduction = {"reduction", "reduction", "none"};

/// Import and export follow from a row, as they do for functions of one element without attributes
/// (elementwise/schema_functions.cc).
constexpr auto kSameOperators = std::to_array<SameOperator>({
    {"Relu", "relu"},
    {"Not", "logical_not"},
    {"IsNaN", "isnan"},
    {"Elu", "elu", {{{"alpha", "alpha", 1.0}}}},
    {"Celu", "celu", {{{"alpha", "alpha", 1.0}}}},
    {"ThresholdedRelu", "thresholded_relu", {{{"alpha", "alpha", 1.0}}}},
    {"LeakyRelu", "leaky_relu", {{{"alpha", "negative_slope", double{0.01F}}}}},
    {"HardSigmoid", "hardsigmoid", {{{"alpha", "alpha", double{0.2F}}, {"beta", "beta", 0.5}}}},
    {"IsInf", "isinf", {{{"detect_negative", "negative", true}, {"detect_positive", "positive", true}}}},
    {"ArgMax", "argmax", {{{"axis", "dim", 0}, {"keepdims", "keepdim", true}, kSelectLastIndex}}},
    {"ArgMin", "argmin", {{{"axis", "dim", 0}, {"keepdims", "keepdim", true}, kSelectLastIndex}}},
    {"GatherND", "gather_nd", {{{"batch_dims", "batch_dims", 0}}}},
});

/// Functions of two elements, which broadcast. Import and export follow from a row.
constexpr auto kSamePairs = std::to_array<SameOperator>({
    {"Sub", "sub"},
    {"Div", "div"},
    {"Equal", "eq"},
    {"Less", "lt"},
    {"LessOrEqual", "le"},
    {"Greater", "gt"},
    {"GreaterOrEqual", "ge"},
    {"And", "logical_and"},
    {"Or", "logical_or"},
    {"Xor", "logical_xor"},
});

/// Only import follows from a row: export does more with them.
constexpr auto kSameWhenRead = std::to_array<SameOperator>({
    {"HardSwish", "hardswish"},
    {"Mish", "mish"},
    {"Softplus", "softplus"},
    {"Gelu", "gelu", {{{"approximate", "approximate", "none"}}}},
    {"GatherElements", "gather_elements", {{{"axis", "dim", 0}}}},
    {"Scatter", "scatter_elements", {{{"axis", "dim", 0}, kReduction}}},
    {"ScatterElements", "scatter_elements", {{{"axis", "dim", 0}, kReduction}}},
    {"ScatterND", "scatter_nd", {{kReduction}}},
});

/// Only export follows from a row: import does more with them.
constexpr auto kSameWhenWritten = std::to_array<SameOperator>({
    {"Mul", "mul"},
    {"Pow", "pow"},
    {"Min", "minimum"},
    {"Max", "maximum"},
    {"PRelu", "prelu"},
    {"Selu", "selu"},
    {"Identity", "identity"},
    {"Identity", "dropout"},
    {"MatMul", "matmul"},
    {"MatMul", "bmm"},
    {"Size", "numel"},
    {"NonZero", "nonzero"},
    {"DynamicQuantizeLinear", "dynamic_quantize_linear"},
    {"LogSoftmax", "log_softmax", {{{"axis", "dim", 0}}}},
    {"Concat", "cat", {{{"axis", "dim", 0}}}},
    {"Unique", "unique", {{{"axis", "dim", 0}, {"sorted", "sorted", true}}}},
    {"Einsum", "einsum", {{{"equation", "equation", ""}}}},
    {"BitwiseAnd", "bitwise_and", {}, 18},
    {"BitwiseOr", "bitwise_or", {}, 18},
    {"BitwiseXor", "bitwise_xor", {}, 18},
});

}  // namespace detent
