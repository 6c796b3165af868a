#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "detent/search/sensitivities.h"
#include "detent/search/study.h"

namespace detent {

/// A way to choose what to measure next. It returns when the study has ended or nothing is left to try. What
/// it does may depend on the seed and on what the study returns, and on nothing else: not on time.
struct Strategy {
  std::string name;
  std::string help;
  std::function<void(Study& study, Sensitivities& found)> run;
};

/// In the order to list them: the first is the default.
std::span<const Strategy> all_strategies();
/// Throws Error with the nearest known name.
const Strategy& find_strategy(std::string_view name, const std::string& where);

// One a file under strategies/.
void search_guided(Study& study, Sensitivities& found);
void search_random(Study& study, Sensitivities& found);
void search_tpe(Study& study, Sensitivities& found);
void search_nsga2(Study& study, Sensitivities& found);
void search_brute_force(Study& study, Sensitivities& found);

}  // namespace detent
