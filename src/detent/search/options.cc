#include "detent/search/options.h"

#include "detent/core/error.h"
#include "detent/core/error_fields.h"
#include "detent/core/text.h"
#include "detent/passes/pass.h"
#include "detent/passes/post_training/static_quantize_options.h"
#include "detent/search/strategy.h"

namespace detent {
namespace {

/// Throws Error on names that are no passes, and on passes of other stages than these.
void check_passes(const std::string& names, PassStage from, PassStage to, const std::string& where) {
  for (const auto& [name, options] : passes_of(names)) {
    try {
      find_pass(name);
    } catch (const Error& error) {
      throw with_fields(error, fmt::format("{}: {}", where, error.what()), {});
    }
    const PassInfo& pass = find_pass(name);
    const bool fits = pass.kind == PassKind::kTransform &&
                      (pass.stage == PassStage::kAny || (pass.stage >= from && pass.stage <= to));
    if (!fits) {
      fail("{}: got \"{}\", expected passes that {}", where, name,
           from == PassStage::kBeforeQuantizing ? "change a network before it is quantized"
                                                : "choose better weights of a quantized network");
    }
  }
}

}  // namespace

Table passes_of(const std::string& names) {
  Table passes;
  if (names == "none" || names == "NA") return passes;
  for (const std::string& name : text_parts(names, ',')) passes[name] = Table();
  return passes;
}

void SearchOptions::check(const std::string& where) const {
  find_strategy(strategy, where + ": key \"strategy\"");
  check_passes(prepare, PassStage::kBeforeQuantizing, PassStage::kBeforeQuantizing,
               where + ": key \"prepare\"");
  check_passes(improve, PassStage::kRoundingWeights, PassStage::kAfterRounding, where + ": key \"improve\"");
  for (const auto& [key, formats] : {std::pair("weights", &weights), std::pair("activations", &activations),
                                     std::pair("elementwise", &elementwise)}) {
    const std::string place = fmt::format("{}: key \"{}\"", where, key);
    if (formats->empty()) fail("{}: got no formats: nothing could be chosen", place);
    const std::string name = key;
    for (const std::string& text : *formats) {
      if (text != kFloatFormat) about_key(name, [&] { parse_format_text(text, place); });
    }
  }
  if (weight_calibrators.empty())
    fail("{}: key \"weight_calibrators\": got none, expected one or more", where);
  check_calibration(activation_calibration, weight_calibrators, where);
  if (weight_granularity == Granularity::kGroup) {
    fail(
        "{}: key \"weight_granularity\": got \"group\", expected tensor or channel: formats say groups by "
        "themselves, as int4_g128",
        where);
  }
  if (quality == QualityKind::kSqnr && max_drop) {
    fail(
        "{}: max_drop bounds the accuracy, but quality = \"sqnr\": expected quality = \"accuracy\", or "
        "min_sqnr instead of max_drop",
        where);
  }
}

}  // namespace detent
