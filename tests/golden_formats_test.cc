// Every format gives what an independent float64 evaluation of its definition gave, for the cases of
// data/golden.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>

#include "detent/formats/quant_spec.h"
#include "detent/io/json.h"
#include "detent/io/safetensors.h"

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

std::vector<GoldenCase> golden_cases() {
  const Value file = read_json(kFolder / "formats.json");
  std::vector<GoldenCase> cases;
  for (const Value& entry : *file.get_if<Table>()->find("cases")->get_if<List>()) {
    read_fields(cases.emplace_back(), *entry.get_if<Table>(), "golden case");
  }
  return cases;
}

bool is_known(const std::string& format) {
  const auto names = format_names();
  return std::ranges::find(names, format.substr(0, format.find(':'))) != names.end();
}

bool within(float got, float expected, double relative_tolerance) {
  if (got == expected || (std::isnan(got) && std::isnan(expected))) return true;
  const auto wanted = static_cast<double>(expected);
  return std::abs(static_cast<double>(got) - wanted) <= relative_tolerance * std::abs(wanted);
}

/// Empty when equal, else the first difference.
std::string difference(const GoldenCase& golden, const Tensor& input, const Tensor& expected) {
  const Tensor got = simulate(parse_quant_spec_text(golden.format), input);
  for (size_t i = 0; i < static_cast<size_t>(input.numel()); ++i) {
    const float y = got.values<float>()[i];
    const float z = expected.values<float>()[i];
    if (within(y, z, golden.relative_tolerance)) continue;
    return fmt::format("element {}: {:a} gives {:a}, not {:a}", i, input.values<float>()[i], y, z);
  }
  return "";
}

TEST(GoldenFormats, EveryCaseOfAKnownFormat) {
  const SafetensorsFile file = read_safetensors(kFolder / "formats.safetensors");
  const std::map<std::string, Tensor> tensors(file.tensors.begin(), file.tensors.end());
  int run = 0;
  int passed_over = 0;
  for (const GoldenCase& golden : golden_cases()) {
    if (!is_known(golden.format)) {
      ++passed_over;
      continue;
    }
    ++run;
    EXPECT_EQ(difference(golden, tensors.at(golden.input), tensors.at(golden.output)), "")
        << golden.format << " of " << golden.input;
  }
  std::cout << run << " cases run, " << passed_over << " of unknown formats\n";
  EXPECT_EQ(run + passed_over, 446);
  EXPECT_GE(run, 164);
}

}  // namespace
}  // namespace detent
