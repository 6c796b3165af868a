#pragma once

#include <string>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/core/text_table.h"
#include "detent/formats/format.h"
#include "detent/formats/quant_spec.h"

namespace detent {

/// Entry of lists for a format, or for a name of one with certain keys.
struct FormatDescription {
  std::string name;
  std::vector<std::string> aliases;
  double bits;                    // by default
  std::vector<std::string> keys;  // that may be given
  std::string help;
};
std::vector<FormatDescription> describe_formats();

/// All formats: name, aliases, bits by default, keys, what it is. docs/formats.md holds this table.
TextTable formats_table();

/// The fields of one: key, type, default, value, allowed range, help.
TextTable format_fields_table(const Format& format);

/// Values to show a format on.
struct NamedValues {
  std::string name;
  Tensor values;  // float32
};

/// 65,536 values of a normal and as many of a Laplace distribution, both with a standard deviation of 1, the
/// same at every call.
std::vector<NamedValues> drawn_distributions();

/// `spec` as it would quantize `values`, with what it lacks (a scale, an exponent bias, a codebook) taken
/// from them: from their smallest and largest, or by least squared error where that is how the format is
/// fitted.
QuantSpec fitted_to(const QuantSpec& spec, const Tensor& values);

/// The values that a tensor whose elements fill [-1, 1] is rounded to, ascending, at most `most` of them: for
/// formats whose scales follow the data, the values relative to the largest of what shares a scale.
std::vector<float> values_within_one(const QuantSpec& spec, size_t most);

/// The values from 0 up on a line of characters: how many fall on each.
std::string number_line(const std::vector<float>& values);

/// SQNR, cosine, largest error and so on, a row for each of `data`.
TextTable format_errors(const QuantSpec& spec, const std::vector<NamedValues>& data);

/// Both as a drawing (SVG), under `title`.
std::string format_drawing(const std::string& title, const std::vector<float>& values,
                           const TextTable& errors);

}  // namespace detent
