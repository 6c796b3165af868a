#include <algorithm>
#include <cctype>
#include <map>
#include <vector>

#include "detent/core/error.h"
#include "detent/formats/format.h"
#include "detent/formats/named_formats.h"

namespace detent {
namespace {

// NOLINTNEXTLINE(readability-function-size): a table.
const std::map<std::string, std::string, std::less<>>& other_names() {
  static const std::map<std::string, std::string, std::less<>> names = {
      // OCP, ONNX, PyTorch, ml_dtypes
      {"fp8", "fp8_e4m3fn"},
      {"float8", "fp8_e4m3fn"},
      {"e4m3", "fp8_e4m3fn"},
      {"e4m3fn", "fp8_e4m3fn"},
      {"fp8_e4m3", "fp8_e4m3fn"},
      {"e5m2", "fp8_e5m2"},
      {"e4m3fnuz", "fp8_e4m3fnuz"},
      {"e5m2fnuz", "fp8_e5m2fnuz"},
      {"fp6", "fp6_e2m3"},
      {"e2m3", "fp6_e2m3"},
      {"e3m2", "fp6_e3m2"},
      {"fp6_e2m3fn", "fp6_e2m3"},
      {"fp6_e3m2fn", "fp6_e3m2"},
      {"fp4", "fp4_e2m1"},
      {"e2m1", "fp4_e2m1"},
      {"fp4_e2m1fn", "fp4_e2m1"},
      {"mxfp8", "mx_e4m3"},
      {"mxfp8_e4m3", "mx_e4m3"},
      {"mxfp8_e5m2", "mx_e5m2"},
      {"mxfp6", "mx_e2m3"},
      {"mxfp6_e2m3", "mx_e2m3"},
      {"mxfp6_e3m2", "mx_e3m2"},
      {"mxfp4", "mx_e2m1"},
      {"mxfp4_e2m1", "mx_e2m1"},
      {"mxint8", "mx_int8"},
      {"bfloat16", "bf16"},
      {"half", "fp16"},
      {"tfloat32", "tf32"},
      // Papers
      {"nf4", "codebook16"},
      {"nf3", "codebook8"},
      {"lut4", "codebook16"},
      {"kmeans", "codebook16"},
      {"bfp", "block_fp"},
      {"bfp16", "block_fp"},
      {"msfp12", "block_fp:width=4"},
      {"msfp16", "block_fp:width=8"},
      {"minifloat", "minifloat_ieee"},
      {"tern", "ternary"},
      {"1.58bit", "ternary"},
      {"b1.58", "ternary"},
      {"1bit", "binary"},
      {"pot", "log"},
      // llama.cpp: integers of blocks, weights are symmetric here
      {"q4_0", "int4_g32"},
      {"q4_1", "int4_g32"},
      {"q4_k", "int4_g32"},
      {"q5_0", "int5_g32"},
      {"q5_1", "int5_g32"},
      {"q5_k", "int5_g32"},
      {"q6_k", "int6_g16"},
      {"q8_0", "int8_g32"},
      {"iq4_nl", "codebook16"},
      // Short
      {"int", "int8"},
      {"i8", "int8"},
      {"s8", "int8"},
      {"u8", "uint8"},
      {"i4", "int4"},
      {"s4", "int4"},
      {"u4", "uint4"},
  };
  return names;
}

std::string folded_name(std::string_view name) {
  std::string folded;
  for (const char c : name)
    folded += c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return folded;
}

bool is_format(const std::string& name) {
  const std::vector<std::string> names = format_names();
  if (std::ranges::find(names, name) != names.end()) return true;
  try {
    return find_named_format(name, "").has_value();
  } catch (const Error&) {  // a width that there is not
    return false;
  }
}

/// "int4g128" and "log4" are names and numbers.
std::string with_number_apart(const std::string& name) {
  const auto digits = std::ranges::find_if_not(name.rbegin(), name.rend(),
                                               [](unsigned char c) { return std::isdigit(c) != 0; });
  const std::string number(digits.base(), name.end());
  const std::string head(name.begin(), digits.base());
  if (number.empty() || head.empty()) return "";
  const bool is_group = head.size() > 1 && head.back() == 'g' &&
                        std::isdigit(static_cast<unsigned char>(head[head.size() - 2])) != 0;
  if (is_group) return head.substr(0, head.size() - 1) + "_g" + number;
  const auto known = other_names().find(head);
  return (known == other_names().end() ? head : known->second) + ":width=" + number;
}

}  // namespace

std::string format_called(std::string_view given) {
  constexpr size_t kLongest = 64;
  if (given.size() > kLongest) return "";
  std::string name = folded_name(given);
  if (name.starts_with("float") && name.size() > 5 && std::isdigit(static_cast<unsigned char>(name[5])) != 0)
    name.replace(0, 5, "fp");
  if (name.ends_with("_k_m") || name.ends_with("_k_s")) name.resize(name.size() - 2);
  if (const auto known = other_names().find(name); known != other_names().end()) return known->second;
  if (name.starts_with("fixed<") || name.starts_with("fixed(") || name.starts_with("ap_fixed"))
    return "fixed:width=8,frac_width=4";
  if (name != given && is_format(name)) return name;
  const std::string apart = with_number_apart(name);
  return !apart.empty() && is_format(apart.substr(0, apart.find(':'))) ? apart : "";
}

}  // namespace detent
