#pragma once

#include <array>

namespace detent {

/// An operator that ONNX calls by another name: the same inputs, one result, no attributes.
struct SameOperator {
  const char* onnx;
  const char* op;
};

/// Functions of one element. Import and export follow from a row.
constexpr auto kSameFunctions = std::to_array<SameOperator>({
    {"Abs", "abs"},     {"Neg", "neg"},         {"Sign", "sign"},         {"Exp", "exp"},
    {"Log", "log"},     {"Sqrt", "sqrt"},       {"Floor", "floor"},       {"Ceil", "ceil"},
    {"Round", "round"}, {"Erf", "erf"},         {"Not", "logical_not"},   {"IsNaN", "isnan"},
    {"Sin", "sin"},     {"Cos", "cos"},         {"Tan", "tan"},           {"Asin", "asin"},
    {"Acos", "acos"},   {"Atan", "atan"},       {"Sinh", "sinh"},         {"Cosh", "cosh"},
    {"Tanh", "tanh"},   {"Asinh", "asinh"},     {"Acosh", "acosh"},       {"Atanh", "atanh"},
    {"Relu", "relu"},   {"Sigmoid", "sigmoid"}, {"Softsign", "softsign"}, {"Reciprocal", "reciprocal"},
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

/// Only export follows from a row: import does more with them.
constexpr auto kSameWhenWritten = std::to_array<SameOperator>({
    {"Mul", "mul"},
    {"Pow", "pow"},
    {"Min", "minimum"},
    {"Max", "maximum"},
    {"PRelu", "prelu"},
    {"Identity", "identity"},
    {"Identity", "dropout"},
});

}  // namespace detent
