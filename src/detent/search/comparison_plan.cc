#include <algorithm>

#include <fmt/format.h>

#include "detent/core/error.h"
#include "detent/core/error_fields.h"
#include "detent/core/text.h"
#include "detent/passes/pass.h"
#include "detent/passes/pipeline.h"
#include "detent/passes/post_training/rotation.h"
#include "detent/search/comparison.h"
#include "detent/search/options.h"

namespace detent {
namespace {

constexpr const char* kQuantize = "static_quantize";

ComparedFormat parse_format(const std::string& text, const std::string& activations,
                            const std::string& where) {
  const std::string place = fmt::format("{}: key \"formats\": \"{}\"", where, text);
  std::vector<std::string> parts = text_parts(text, '/');
  if (parts.size() > 2) fail("{}: expected WEIGHTS or WEIGHTS/ACTIVATIONS", place);
  if (parts.size() == 1) parts.push_back(activations);
  for (const std::string& part : parts) OperandFormat::parse(part, place);
  return {parts[0], parts[1]};
}

/// Passes that look at samples take as many as calibration does, where that was given.
Table pass_options(const PassInfo& pass, const Table& quantization) {
  Table options;
  const Value* samples = quantization.find("num_samples");
  if (samples != nullptr && has_option(pass, "num_samples")) options["num_samples"] = *samples;
  return options;
}

ComparedMethod parse_method(const std::string& text, const Table& quantization, const std::string& where) {
  const std::string place = fmt::format("{}: key \"methods\": \"{}\"", where, text);
  ComparedMethod method{text, {}, {}};
  if (text == "none") return method;
  for (const std::string& name : text_parts(text, '+')) {
    const PassInfo* pass = nullptr;
    try {
      pass = &find_pass(name);
    } catch (const Error& error) {
      throw with_fields(error, fmt::format("{}: {}", place, error.what()), {.key = "methods"});
    }
    const bool fits = pass->kind == PassKind::kTransform && pass->stage != PassStage::kQuantizing;
    if (!fits || method.before.contains(name) || method.after.contains(name))
      fail("{}: expected none, or passes that change the network, each once, joined by +", place);
    Table& passes = pass->stage == PassStage::kBeforeQuantizing ? method.before : method.after;
    passes[name] = pass_options(*pass, quantization);
  }
  return method;
}

}  // namespace

StaticQuantizeOptions ComparisonPlan::quantize_options(const ComparedFormat& format) const {
  constexpr const char* kWhere = "compare";
  StaticQuantizeOptions options;
  read_fields(options, quantization, kWhere);
  options.weights = OperandFormat::parse(format.weights, kWhere);
  options.activations = OperandFormat::parse(format.activations, kWhere);
  return options;
}

Table ComparisonPlan::before(const ComparedFormat& format, const ComparedMethod& method) const {
  Table passes = prepare;
  for (const auto& [name, options] : method.before) passes[name] = options;
  fit_rotated_blocks(passes, quantize_options(format));
  return passes;
}

Table ComparisonPlan::passes(const ComparedFormat& format, const ComparedMethod& method) const {
  Table passes = before(format, method);
  Table options = quantization;
  options["weights"] = format.weights;
  options["activations"] = format.activations;
  options["report"] = false;
  passes[kQuantize] = std::move(options);
  for (const auto& [name, more] : method.after) passes[name] = more;
  return passes;
}

ComparisonPlan plan_comparison(const ComparisonOptions& options, const Table& quantization,
                               const std::string& where) {
  ComparisonPlan plan{
      .formats = {}, .methods = {}, .prepare = passes_of(options.prepare), .quantization = quantization};
  StaticQuantizeOptions others;
  read_fields(others, quantization, where);
  const Value* given = quantization.find("activations");
  const Value usual = given == nullptr ? others.activations.to_value() : *given;
  const std::string activations = *usual.get_if<std::string>();
  for (const std::string& text : options.formats) {
    ComparedFormat format = parse_format(text, activations, where);
    const bool is_new =
        std::ranges::find(plan.formats, format.text(), &ComparedFormat::text) == plan.formats.end();
    if (is_new) plan.formats.push_back(std::move(format));
  }
  for (const std::string& text : options.methods) {
    const bool is_new = std::ranges::find(plan.methods, text, &ComparedMethod::name) == plan.methods.end();
    if (is_new) plan.methods.push_back(parse_method(text, quantization, where));
  }
  if (plan.formats.empty()) fail("{}: key \"formats\": expected a format", where);
  if (plan.methods.empty()) fail("{}: key \"methods\": expected none, or a pass", where);
  for (const ComparedFormat& format : plan.formats) {
    for (const ComparedMethod& method : plan.methods) Pipeline(plan.passes(format, method), where);
  }
  return plan;
}

}  // namespace detent
