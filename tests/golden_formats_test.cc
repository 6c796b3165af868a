// Every format gives what an independent float64 evaluation of its definition gave, for the cases of
// data/golden.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "detent/files/json.h"
#include "detent/files/safetensors.h"
#include "detent/formats/quant_spec.h"

namespace detent {
namespace {

const std::filesystem::path kFolder = DETENT_SOURCE_DIR "/tests/data/golden";

struct GoldenCase {
  std::string format;
  std::string input;
  std::string output;
  double relative_tolerance = 0;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("format", self.format, "one-line text form");
    visit("input", self.input, "name of a tensor");
    visit("output", self.output, "name of a tensor");
    visit("relative_tolerance", self.relative_tolerance, "0: equal to the last bit, zeros by value");
  }
};

/// Cases of `name`.json, whose tensors are in `name`.safetensors.
std::vector<GoldenCase> golden_cases(const std::string& name) {
  const Value file = read_json(kFolder / (name + ".json"));
  std::vector<GoldenCase> cases;
  for (const Value& entry : *file.get_if<Table>()->find("cases")->get_if<List>()) {
    read_fields(cases.emplace_back(), *entry.get_if<Table>(), "golden case");
  }
  return cases;
}

bool within(float got, float expected, double relative_tolerance) {
  if (got == expected || (std::isnan(got) && std::isnan(expected))) return true;
  const auto wanted = static_cast<double>(expected);
  return std::abs(static_cast<double>(got) - wanted) <= relative_tolerance * std::abs(wanted);
}

/// Empty when equal, else the first difference.
std::string difference(const GoldenCase& golden, const Tensor& input, const Tensor& expected) {
  const Tensor got = fake_quantize(parse_quant_spec_text(golden.format), input);
  for (size_t i = 0; i < static_cast<size_t>(input.numel()); ++i) {
    const float y = got.values<float>()[i];
    const float z = expected.values<float>()[i];
    if (within(y, z, golden.relative_tolerance)) continue;
    return fmt::format("element {}: {:a} gives {:a}, not {:a}", i, input.values<float>()[i], y, z);
  }
  return "";
}

/// Compares every case of the file, and returns how many there are of each format. A case that cannot be read
/// or compared fails.
std::map<std::string, int> compare_all(const std::string& name) {
  const SafetensorsFile file = read_safetensors(kFolder / (name + ".safetensors"));
  const std::map<std::string, Tensor> tensors(file.tensors.begin(), file.tensors.end());
  std::map<std::string, int> counts;
  for (const GoldenCase& golden : golden_cases(name)) {
    const Tensor& input = tensors.at(golden.input);
    const Tensor& expected = tensors.at(golden.output);
    EXPECT_GT(input.numel(), 0) << golden.input;
    EXPECT_EQ(input.shape(), expected.shape()) << golden.output;
    EXPECT_EQ(difference(golden, input, expected), "") << golden.format << " of " << golden.input;
    ++counts[golden.format.substr(0, golden.format.find(':'))];
  }
  return counts;
}

using Counts = std::map<std::string, int>;

TEST(GoldenFormats, EveryCase) {
  const Counts expected = {{"affine", 28},    {"binary", 26},           {"block_fp", 66},
                           {"block_log", 66}, {"block_minifloat", 66},  {"fixed", 44},
                           {"fp4_e2m1", 1},   {"fp6_e2m3", 1},          {"fp6_e3m2", 1},
                           {"fp8_e4m3fn", 1}, {"fp8_e4m3fnuz", 1},      {"fp8_e5m2", 1},
                           {"log", 6},        {"minifloat_denorm", 12}, {"minifloat_ieee", 14},
                           {"mx", 84},        {"ternary", 28}};
  EXPECT_EQ(compare_all("formats"), expected);  // 446 in all
}

// Computed by data/golden/more_formats.py.
TEST(GoldenFormats, EveryCaseOfOtherFormats) {
  const Counts expected = {{"bf16", 2},  {"binary_residual", 5}, {"codebook", 5},
                           {"fp16", 2},  {"fp8_e5m2", 2},        {"fp8_e5m2fnuz", 1},
                           {"nvfp4", 8}, {"scaled", 28},         {"tf32", 2}};
  EXPECT_EQ(compare_all("more_formats"), expected);
}

TEST(GoldenFormats, NoFormatIsWithoutACase) {
  std::set<std::string> cases;
  for (const char* file : {"formats", "more_formats"}) {
    for (const GoldenCase& golden : golden_cases(file))
      cases.emplace(format_name(parse_format(golden.format)));
  }
  for (const std::string& name : format_names()) {
    EXPECT_TRUE(cases.contains(std::string(format_name(make_format(name, "test"))))) << name;
  }
}

}  // namespace
}  // namespace detent
