// Any text as a file of saved statistics, which becomes a configuration with each calibrator.
#include <string_view>

#include "detent/core/error.h"
#include "detent/files/toml.h"
#include "detent/passes/stat_to_conf.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  detent::StatToConfInput input;
  input.statistics_file = "fuzz.toml";
  const auto choice = static_cast<size_t>(data[0]);
  const auto calibrators = enum_names(detent::Calibrator());
  try {
    input.statistics = detent::parse_toml({reinterpret_cast<const char*>(data) + 1, size - 1}, "fuzz.toml");
    if (choice % 2 == 1) {
      input.calibration.emplace().calibrator =
          static_cast<detent::Calibrator>(choice / 2 % calibrators.size());
      input.formats = {{"data_in", detent::parse_quant_spec_text("affine")},
                       {"weight", detent::parse_quant_spec_text("affine:granularity=channel")}};
    }
    detent::stat_to_conf(input, [](const std::string&) {});
  } catch (const detent::Error&) {
  }
  return 0;
}
