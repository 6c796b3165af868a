#include <algorithm>
#include <cmath>
#include <random>

#include <CLI/CLI.hpp>

#include "detent/cli/commands/command.h"
#include "detent/core/error.h"
#include "detent/core/text_table.h"
#include "detent/files/file.h"
#include "detent/files/svg.h"
#include "detent/formats/measure/distortion.h"
#include "detent/formats/packing/encode.h"
#include "detent/formats/verbs.h"

// The output of a ReLU with three channels, the first three times as wide as the others, quantized to 8 bits
// once with one scale for the tensor and once with a scale for each channel. A scale is the 99.999th
// percentile of the values over 255, as is the default of Brevitas' QuantReLU, from whose tutorial the
// example is.

namespace detent {
namespace {

constexpr int64_t kChannels = 3;
constexpr int64_t kSide = 256;
constexpr int64_t kValues = kSide * kSide;  // of a channel
constexpr int kTopCode = 255;

/// [1, 3, 256, 256] uniform in [0, 1), channel 0 times 3: what torch.rand gives on a CPU after
/// torch.manual_seed(0), 24 bits of each draw of the Mersenne twister. Or, without chance, the ramp i /
/// 65536.
Tensor make_input(bool ramp) {
  Tensor input(DType::kFloat32, {1, kChannels, kSide, kSide});
  std::mt19937 generator(0);
  const std::span<float> values = input.values<float>();
  for (size_t i = 0; i < values.size(); ++i) {
    const auto position = static_cast<uint32_t>(i % static_cast<size_t>(kValues));
    values[i] = ramp ? static_cast<float>(position) * 0x1p-16F
                     : static_cast<float>(static_cast<uint32_t>(generator()) & 0xFFFFFFU) * 0x1p-24F;
    if (i < static_cast<size_t>(kValues)) values[i] *= 3;
  }
  return input;
}

/// The k-th smallest value, k = floor(0.99999 n + 1/2).
float high_percentile(std::span<const float> values) {
  std::vector<float> sorted(values.begin(), values.end());
  const auto rank =
      static_cast<int64_t>(std::floor(0.01 * 99.999 * static_cast<double>(sorted.size()) + 0.5));
  std::ranges::nth_element(sorted, sorted.begin() + (rank - 1));
  return sorted[static_cast<size_t>(rank - 1)];
}

QuantSpec spec_with(std::vector<float> scales) {
  QuantSpec spec;
  if (scales.size() > 1) {
    spec.granularity = Granularity::kChannel;
    spec.axis = 1;
  }
  spec.format = integer_format({.width = 8, .is_signed = false}, {std::move(scales)});
  return spec;
}

struct Measures {
  int highest_code = 0;
  size_t distinct_codes = 0;
  int64_t code_sum = 0;
  Distortion distortion;
};

struct Quantization {
  const char* name;
  std::vector<float> scales;  // one, or one a channel
  std::vector<Measures> channels;
  Measures all;

  float scale(size_t channel) const { return scales[scales.size() == 1 ? 0 : channel]; }
};

Measures measure(std::span<const uint8_t> codes, const Tensor& original, const Tensor& quantized) {
  Measures measures;
  std::array<bool, 256> used{};
  for (const uint8_t code : codes) {
    used[code] = true;
    measures.highest_code = std::max<int>(measures.highest_code, code);
    measures.code_sum += code;
  }
  measures.distinct_codes = static_cast<size_t>(std::ranges::count(used, true));
  measures.distortion.update(original, quantized);
  return measures;
}

Quantization quantize(const char* name, const Tensor& input, std::vector<float> scales) {
  Quantization result{name, scales, {}, {}};
  const QuantSpec spec = spec_with(std::move(scales));
  const Encoded encoded = encode(spec, input);  // 8 bits a code: a byte each
  const std::span<const uint8_t> codes = encoded.codes().values<uint8_t>();
  const Tensor original = input.reshaped({kChannels, kValues});
  const Tensor quantized = decode(encoded).reshaped({kChannels, kValues});
  for (int64_t c = 0; c < kChannels; ++c) {
    result.channels.push_back(measure(codes.subspan(static_cast<size_t>(c * kValues), kValues),
                                      original.rows(c, c + 1), quantized.rows(c, c + 1)));
  }
  result.all = measure(codes, original, quantized);
  return result;
}

std::string scale_table(const Quantization& tensor, const Quantization& channel) {
  TextTable table({"", "per tensor", "channel 0", "channel 1", "channel 2"});
  const auto row = [&](const char* name, const auto& text) {
    std::vector<std::string> cells = {name, text(tensor.scales[0])};
    for (const float scale : channel.scales) cells.push_back(text(scale));
    table.add_row(std::move(cells));
  };
  const auto times_top = [](float scale) {
    return static_cast<double>(scale * static_cast<float>(kTopCode));
  };
  row("scale", [](float scale) { return fmt::format("{}", static_cast<double>(scale)); });
  row("scale * 255", [&](float scale) { return fmt::format("{:.9f}", times_top(scale)); });
  row("to 4 digits", [&](float scale) { return fmt::format("{:.4f}", times_top(scale)); });
  return table.to_text();
}

std::string error_table(const Quantization& quantization) {
  TextTable table({quantization.name, "channel 0", "channel 1", "channel 2", "overall"});
  const auto row = [&](const char* name, const auto& text) {
    std::vector<std::string> cells = {name};
    for (const Measures& measures : quantization.channels) cells.push_back(text(measures));
    cells.push_back(text(quantization.all));
    table.add_row(std::move(cells));
  };
  row("highest integer", [](const Measures& m) { return fmt::format("{}", m.highest_code); });
  row("distinct integers", [](const Measures& m) { return fmt::format("{}", m.distinct_codes); });
  row("mean squared error",
      [](const Measures& m) { return fmt::format("{:.6e}", m.distortion.mean_squared_error()); });
  row("largest error", [](const Measures& m) { return fmt::format("{:.9f}", m.distortion.max_error()); });
  row("SQNR, dB", [](const Measures& m) { return fmt::format("{:.3f}", m.distortion.sqnr_db()); });
  row("sum of integers", [](const Measures& m) { return fmt::format("{}", m.code_sum); });
  return table.to_text();
}

// ---- The picture: for each channel the histogram of its values, below it the values that each quantization
// has.

constexpr double kLeft = 90;
constexpr double kPictureWidth = 700;
constexpr double kPanelHeight = 190;
constexpr double kHistogramHeight = 90;
constexpr double kGridHeight = 18;
constexpr size_t kBins = 60;

void draw_histogram(SvgDrawing& drawing, std::span<const float> values, double top, float right_end) {
  std::array<int64_t, kBins> counts{};
  for (const float value : values) {
    const auto bin = static_cast<size_t>(value / right_end * static_cast<float>(kBins));
    ++counts[std::min(bin, kBins - 1)];
  }
  const auto most = static_cast<double>(*std::ranges::max_element(counts));
  constexpr double kBarWidth = kPictureWidth / kBins;
  for (size_t i = 0; i < kBins; ++i) {
    const double height = kHistogramHeight * static_cast<double>(counts[i]) / most;
    drawing.rectangle(kLeft + static_cast<double>(i) * kBarWidth, top + kHistogramHeight - height,
                      kBarWidth - 1, height, "#bbbbbb");
  }
}

/// Returns how many values of the grid there are up to `right_end`.
int draw_grid(SvgDrawing& drawing, float scale, double top, float right_end, const char* colour) {
  int count = 0;
  for (int code = 0; code <= kTopCode && static_cast<float>(code) * scale <= right_end; ++code, ++count) {
    const double x =
        kLeft + kPictureWidth * static_cast<double>(static_cast<float>(code) * scale / right_end);
    drawing.line(x, top, x, top + kGridHeight, colour, 0.8);
  }
  return count;
}

SvgDrawing draw(const Tensor& input, const Quantization& tensor, const Quantization& channel) {
  SvgDrawing drawing(kLeft + kPictureWidth + 120, 40 + kChannels * kPanelHeight);
  drawing.text(kLeft, 24, "8-bit grids over the values of three channels", 16);
  const std::span<const float> values = input.values<float>();
  for (int64_t c = 0; c < kChannels; ++c) {
    const double top = 50 + static_cast<double>(c) * kPanelHeight;
    const auto of_channel = values.subspan(static_cast<size_t>(c * kValues), kValues);
    const float right_end = c == 0 ? 3 : 1;
    drawing.text(kLeft - 10, top + kHistogramHeight / 2, fmt::format("channel {}", c), 13,
                 SvgDrawing::Anchor::kEnd);
    draw_histogram(drawing, of_channel, top, right_end);
    double grid_top = top + kHistogramHeight + 6;
    for (const auto& [quantization, colour] :
         {std::pair(&tensor, "#cc6677"), std::pair(&channel, "#4477aa")}) {
      const int count =
          draw_grid(drawing, quantization->scale(static_cast<size_t>(c)), grid_top, right_end, colour);
      drawing.text(kLeft - 10, grid_top + 13, quantization->name, 11, SvgDrawing::Anchor::kEnd);
      drawing.text(kLeft + kPictureWidth + 10, grid_top + 13, fmt::format("{} values", count), 11);
      grid_top += kGridHeight + 4;
    }
    for (int tick = 0; tick <= 4; ++tick) {
      const double share = tick / 4.0;
      drawing.text(kLeft + kPictureWidth * share, grid_top + 12,
                   fmt::format("{}", share * static_cast<double>(right_end)), 11,
                   SvgDrawing::Anchor::kMiddle);
    }
  }
  return drawing;
}

int run_example_per_channel_activation(const std::vector<std::string>& args) {
  CLI::App app(
      "Quantize three channels of activations, one three times as wide as the others, to 8 bits: with one "
      "scale, and with one for each channel.",
      "detent example per-channel-activation");
  std::string output = "per_channel_activation.svg";
  bool ramp = false;
  app.add_option("-o,--output", output, "picture to write (default per_channel_activation.svg)")
      ->option_text("FILE");
  app.add_flag("--ramp", ramp, "the values i / 65536 in place of random ones");
  bool overwrite = false;
  add_overwrite_option(app, overwrite);
  if (!parse_arguments(app, args)) return 0;

  claim_output(output, "-o", overwrite);
  const Tensor input = make_input(ramp);
  std::vector<float> scales;
  for (int64_t c = 0; c < kChannels; ++c) {
    const auto values = input.values<float>().subspan(static_cast<size_t>(c * kValues), kValues);
    scales.push_back(high_percentile(values) / static_cast<float>(kTopCode));
  }
  const Quantization tensor =
      quantize("per tensor", input, {high_percentile(input.values<float>()) / static_cast<float>(kTopCode)});
  const Quantization channel = quantize("per channel", input, scales);
  draw(input, tensor, channel).write(output);
  print(fmt::format("{}\n{}\n{}\npicture: {}\n", scale_table(tensor, channel), error_table(tensor),
                    error_table(channel), output));
  return 0;
}

const std::vector<Command>& examples() {
  static const std::vector<Command> kExamples = {
      {"per-channel-activation", "what a scale for each channel of an activation wins over one for all",
       run_example_per_channel_activation},
  };
  return kExamples;
}

}  // namespace

int run_example(const std::vector<std::string>& args) {
  return run_group({.name = "example",
                    .help = "Show something about quantization with numbers and a picture.",
                    .one = "name",
                    .commands = examples()},
                   args);
}

}  // namespace detent
