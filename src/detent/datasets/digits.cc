#include "detent/datasets/datasets.h"

#include <charconv>
#include <functional>
#include <utility>

#include "detent/core/error.h"
#include "detent/datasets/image_dataset.h"
#include "detent/files/gzip.h"

namespace detent {

/// data/digits.csv.gz, embedded by the build.
std::span<const std::byte> digits_csv_gz();

namespace {

constexpr int64_t kDigitsSide = 8;
constexpr int64_t kDigitsClasses = 10;
constexpr int kBlack = 16;
constexpr uint64_t kMostCsvBytes = 1 << 20;

/// Takes the integer at the front of `text` and the separator after it.
int take_number(std::string_view& text, int most) {
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto length = static_cast<size_t>(end - text.data());
  DETENT_CHECK(error == std::errc() && number >= 0 && number <= most && length < text.size(),
               "digits.csv has {} where a number of 0 to {} belongs", text.substr(0, 8), most);
  text.remove_prefix(length + 1);
  return number;
}

/// Every fifth image is for the test, the one after it for validation.
bool belongs(int64_t row, Split split) {
  constexpr int64_t kFolds = 5;
  switch (split) {
    case Split::kTrain:
      return row % kFolds >= 2;
    case Split::kValidation:
      return row % kFolds == 1;
    case Split::kTest:
    case Split::kPrediction:
      return row % kFolds == 0;
  }
  return false;
}

/// Samples that `wanted` selects by their number.
std::unique_ptr<Dataset> read_digits(const std::function<bool(int64_t)>& wanted,
                                     const DatasetOptions& options) {
  const std::string csv = read_gzip(digits_csv_gz(), "digits.csv.gz", kMostCsvBytes);
  std::string_view rest = csv;
  std::vector<uint8_t> pixels;
  std::vector<int64_t> labels;
  for (int64_t row = 0; !rest.empty(); ++row) {
    const bool is_wanted = wanted(row);
    for (int64_t i = 0; i < kDigitsSide * kDigitsSide; ++i) {
      const int pixel = take_number(rest, kBlack);
      if (is_wanted) pixels.push_back(static_cast<uint8_t>(pixel));
    }
    const int label = take_number(rest, kDigitsClasses - 1);
    if (is_wanted) labels.push_back(label);
  }
  const auto count = static_cast<int64_t>(labels.size());
  Tensor images = Tensor::from<uint8_t>({count, 1, kDigitsSide, kDigitsSide}, pixels);
  return std::make_unique<ImageDataset>(std::move(images), std::move(labels), kDigitsClasses,
                                        Normalisation{{0}, {1}, kBlack}, options, "built in");
}

std::unique_ptr<Dataset> make_digits(Split split, const DatasetOptions& options) {
  return read_digits([split](int64_t row) { return belongs(row, split); }, options);
}

}  // namespace

std::unique_ptr<Dataset> make_all_digits() {
  return read_digits([](int64_t) { return true; }, {});
}

DatasetInfo digits_info() {
  DatasetInfo info;
  info.name = "digits";
  info.help =
      "1,797 handwritten digits of 8x8 pixels (0 to 1 in steps of 1/16), built in, no download. Images 0, 5, "
      "10, "
      "... are the test split, images 1, 6, 11, ... the validation split, the other 1,077 the training "
      "split; "
      "prediction is the test split.";
  info.attribution =
      "Optical Recognition of Handwritten Digits (test part), E. Alpaydin and C. Kaynak, UCI Machine "
      "Learning "
      "Repository, 1998; CC BY 4.0";
  info.task = "classification";
  info.has_images = true;
  info.sample_shape = {1, kDigitsSide, kDigitsSide};
  info.class_count = kDigitsClasses;
  info.make = make_digits;
  info.has_validation = [](const DatasetOptions&) { return true; };
  return info;
}

}  // namespace detent
