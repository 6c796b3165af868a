#include "detent/passes/reconstruction/input_moments.h"

#include <optional>

#include "detent/passes/reconstruction/im2col.h"

namespace detent {

std::vector<InputMoments> input_moments(const Node& layer, size_t index, StagedRun& run, StagedRun* in_float,
                                        const std::string& where) {
  const Im2Col im2col(layer, where);
  GramMatrices grams(im2col);
  std::optional<ShiftMatrices> shifts;
  if (in_float != nullptr) {
    shifts.emplace(im2col);
    in_float->advance_to(index);
  }
  run.advance_to(index);
  for (int64_t batch = 0; batch < run.batch_count(); ++batch) {
    const Tensor input = quantized_operand(layer, "data_in_0", run.input(batch), where);
    grams.add(input);
    if (shifts) shifts->add(input, in_float->input(batch));
  }
  std::vector<InputMoments> moments;
  for (int64_t group = 0; group < im2col.groups(); ++group) {
    InputMoments& of_group = moments.emplace_back();
    of_group.gram = grams.mean(group, where);
    if (!shifts) continue;
    of_group.shift = shifts->mean(group, where);
    of_group.shift_gram = shifts->gram(group, where);
  }
  return moments;
}

}  // namespace detent
