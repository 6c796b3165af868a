#include "detent/engine/row_layer.h"

#include <array>
#include <vector>

#include "detent/engine/pair_table.h"
#include "detent/engine/single_step.h"
#include "detent/graph/operators.h"

namespace detent {
namespace {

class KernelPairs final : public CodePairs {
 public:
  explicit KernelPairs(const PairForm& form)
      : kernels_(kernel_set()), a_(form.a), b_(form.b), output_(form.output) {
    if (form.operation == PairOperation::kMul) {
      pairs_.product = byte_product(form);
    } else {
      pairs_.addition = byte_addition(form);
    }
  }

  Tensor results(const Tensor& a, const Tensor& b) const override {
    const std::array<Tensor, 2> inputs = {a, b};
    return last_
        .run(inputs,
             [&] {
               return std::make_unique<SingleStep>(
                   std::vector<SingleStep::Value>{{a.shape(), a_}, {b.shape(), b_}},
                   SingleStep::Value{broadcast_shapes(a.shape(), b.shape()), output_},
                   pairs_step(kernels_, pairs_, 0, 1, 2));
             })
        .tensor;
  }

 private:
  const KernelSet& kernels_;
  CodeType a_, b_, output_;
  BytePairs pairs_;
  mutable LastStep last_;
};

}  // namespace

std::unique_ptr<const CodePairs> code_pairs(const PairForm& form) {
  if (!pairs_bytes(form) || !has_pair_kernel(form)) return nullptr;
  return std::make_unique<const KernelPairs>(form);
}

}  // namespace detent
