#include "detent/core/error.h"
#include "detent/passes/passes.h"

namespace detent {
namespace {

void report_accuracy(Graph& graph, const NoOptions&, PassContext& context) {
  if (!context.score) fail("{}: there are no validation samples with labels here", context.where);
  const Score score = context.score(graph);
  context.report(fmt::format("accuracy on the validation samples: {:.4f} +- {:.4f}, loss {:.4f}\n",
                             score.accuracy, score.standard_error, score.loss));
}

}  // namespace

PassInfo report_accuracy_pass() {
  return make_pass("report_accuracy", PassKind::kAnalysis,
                   "prints accuracy and loss on the validation samples at this point of the pipeline",
                   report_accuracy);
}

}  // namespace detent
