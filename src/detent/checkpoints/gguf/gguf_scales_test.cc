#include "detent/checkpoints/gguf/gguf_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "detent/core/convert.h"

namespace detent {
namespace {

/// Whether a byte times the scale, plus the minimum, is the value, of which NaN and infinities do not matter.
bool is_in_group(float value, float scale, const float* minimum) {
  for (int code = -128; code < 128; ++code) {
    float sum = static_cast<float>(code) * scale;
    if (minimum != nullptr) sum = sum + *minimum;
    if (sum == value) return true;
  }
  return !std::isfinite(value);
}

TEST(GgufScales, AreThoseOfTheIntegersInBlocks) {
  std::mt19937 engine(3);
  int formats = 0;
  for (const GgufFormat& format : gguf_formats()) {
    constexpr int64_t kRows = 3;
    constexpr int64_t kColumns = 512;
    std::vector<std::byte> bytes(static_cast<size_t>(kRows * kColumns) / format.elements * format.bytes);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(engine());
    const GgufTensor tensor{format.name, &format, {kRows, kColumns}, bytes, nullptr};
    const auto found = gguf_scales(tensor);
    if (!found) continue;
    ++formats;
    const Tensor values = gguf_elements(tensor);
    ASSERT_EQ(found->scales.shape(), (Shape{kRows, kColumns / found->group})) << format.name;
    size_t finite = 0;
    for (size_t i = 0; i < values.values<float>().size(); ++i) {
      const float value = values.values<float>()[i];
      const size_t group = i / static_cast<size_t>(found->group);
      const float* const minimum =
          found->minimums ? found->minimums->values<float>().data() + group : nullptr;
      ASSERT_TRUE(is_in_group(value, found->scales.values<float>()[group], minimum))
          << format.name << " " << i;
      finite += std::isfinite(value) ? 1U : 0U;
    }
    EXPECT_GT(finite, values.values<float>().size() / 2) << format.name;
  }
  EXPECT_EQ(formats, 19);
}

TEST(GgufScales, AreNoneOfOtherFormatsAndVectors) {
  std::vector<std::byte> bytes(4096);
  const GgufTensor floats{"floats", find_gguf_format(0), {32, 32}, bytes, nullptr};
  EXPECT_FALSE(gguf_scales(floats));
  const GgufTensor row{"row", find_gguf_format(2), {32}, std::span(bytes).first(18), nullptr};
  EXPECT_FALSE(gguf_scales(row));
}

TEST(GgufRows, AreThoseOfTheWholeTensor) {
  std::mt19937 engine(5);
  for (const uint32_t id : {0U, 8U, 30U}) {
    const GgufFormat& format = *find_gguf_format(id);
    std::vector<std::byte> bytes(size_t{5} * 64 / format.elements * format.bytes);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(engine() % 100);
    const GgufTensor tensor{"table", &format, {5, 64}, bytes, nullptr};
    const Tensor all = to_float32(gguf_elements(tensor));
    const std::vector<int64_t> rows = {4, 0, 4};
    const Tensor some = gguf_rows(tensor, rows);
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      EXPECT_TRUE(some.rows(at, at + 1).equals(all.rows(rows[i], rows[i] + 1))) << format.name;
    }
  }
}

}  // namespace
}  // namespace detent
