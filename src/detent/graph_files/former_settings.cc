#include "detent/graph_files/graph_layout.h"

#include <algorithm>
#include <cmath>

#include "detent/core/error.h"
#include "detent/graph/owned_parameters.h"

namespace detent {
namespace {

/// The numbers of a former setting, which is taken out of the parameters; empty where there is none.
std::vector<float> take_numbers(Quantizer& quantizer, const char* name, size_t count,
                                const std::string& where) {
  const Parameter* parameter = quantizer.find_parameter(name);
  if (parameter == nullptr) return {};
  const Tensor& tensor = parameter->tensor;
  if (tensor.dtype() != DType::kFloat32 || tensor.numel() != static_cast<int64_t>(count)) {
    fail("{}: parameter \"{}\": got {} {}, expected {} of float32", where, name, dtype_name(tensor.dtype()),
         shape_text(tensor.shape()), count);
  }
  std::vector<float> numbers(tensor.values<float>().begin(), tensor.values<float>().end());
  std::erase_if(quantizer.parameters, [&](const auto& entry) { return entry.first == name; });
  return numbers;
}

/// From 0 to `most`.
int64_t whole_number(float value, double most, const char* name, const std::string& where) {
  const auto number = static_cast<double>(value);
  if (!(number >= 0 && number <= most) || number != std::floor(number))
    fail("{}: parameter \"{}\": got {}, expected a whole number from 0 to {}", where, name, value, most);
  return static_cast<int64_t>(number);
}

template <class Enum>
Enum enumerator(float value, const char* name, const std::string& where) {
  const auto most = static_cast<double>(enum_names(Enum()).size() - 1);
  return static_cast<Enum>(whole_number(value, most, name, where));
}

}  // namespace

void take_former_settings(Quantizer& quantizer, const std::string& where) {
  constexpr const char* kRounding = "rounding";
  constexpr const char* kFoldsNorm = "folds_norm";
  constexpr const char* kCollected = "collected";
  if (quantizer.find_parameter(kRoundUp) != nullptr) quantizer.rounding = Rounding::kLearned;
  if (const auto rounding = take_numbers(quantizer, kRounding, 1, where); !rounding.empty())
    quantizer.rounding = enumerator<Rounding>(rounding[0], kRounding, where);
  if (const auto folds = take_numbers(quantizer, kFoldsNorm, 1, where); !folds.empty())
    quantizer.norm_folding = enumerator<NormFolding>(folds[0], kFoldsNorm, where);
  // done, wanted, statistic, argument, momentum
  if (const auto collected = take_numbers(quantizer, kCollected, 5, where); !collected.empty()) {
    constexpr double kMostSteps = 1 << 24;
    quantizer.observer = ScaleObserver{.statistic = enumerator<Threshold>(collected[2], kCollected, where),
                                       .argument = collected[3],
                                       .momentum = collected[4],
                                       .steps = whole_number(collected[1], kMostSteps, kCollected, where),
                                       .done = whole_number(collected[0], kMostSteps, kCollected, where)};
  }
}

}  // namespace detent
