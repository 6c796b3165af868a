#include "detent/search/strategy.h"

namespace detent {

void search_random(Study& study, Sensitivities&) {
  RandomDraws draws(study.seed());
  while (!study.ended()) {
    std::vector<Assignment> batch;
    for (size_t i = 0; i < kTrialBatch; ++i) batch.push_back(draws.assignment(study.space()));
    const size_t before = study.trials().size();
    study.measure(batch);
    if (static_cast<double>(before) >= study.space().size()) return;
  }
}

}  // namespace detent
