#include "detent/passes/analysis/quantization_advice.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <memory>
#include <optional>

#include <fmt/ranges.h>

#include "detent/core/error.h"
#include "detent/formats/groups/calibrating.h"
#include "detent/formats/verbs.h"
#include "detent/graph/operators.h"
#include "detent/graph/traits.h"
#include "detent/passes/analysis/network_cost.h"
#include "detent/passes/analysis/output_gain.h"
#include "detent/passes/pass.h"
#include "detent/passes/post_training/rotation.h"
#include "detent/passes/post_training/static_quantize.h"
#include "detent/passes/staged_runs/round_weights.h"
#include "detent/reconstruction/learned_rounding.h"

namespace detent {
namespace {

constexpr const char* kQuantize = "static_quantize";
constexpr const char* kBits = "bits";
constexpr const char* kKeepFloat = "keep_float";
constexpr double kFine = 25;     // dB, beyond which nothing is tried
constexpr double kLittle = 0.3;  // dB that are no reason to change an option
/// Products that all that is tried may take: some 4 seconds of a core.
constexpr double kMostAdviceProducts = 1e11;
/// Products that what is found better may take to be measured again, on more samples.
constexpr double kMostConfirmedProducts = 1.5e11;
constexpr const char* kGptqPass = "gptq";
constexpr const char* kGptaqPass = "gptaq";
constexpr const char* kSignRound = "signround";
constexpr const char* kHadamard = "hadamard";

/// The options of a quantization.
struct Options {
  std::vector<std::string> before;   // passes that change weights before it
  Table quantize;                    // of static_quantize
  std::vector<std::string> improve;  // passes after it
};

/// Widths may be a table of patterns (`NodeBits`); advice adds to the text.
void write_bits_as_text(Table& quantize) {
  const Value* given = quantize.find(kBits);
  if (given == nullptr) return;
  const Value text = NodeBits::from_value(*given, kBits).to_value();
  if (text.is_na())
    quantize.erase(kBits);
  else
    quantize[kBits] = text;
}

Options options_of(const Table& passes) {
  Options options;
  for (const auto& [name, given] : passes) {
    if (name == kQuantize) {
      options.quantize = *given.get_if<Table>();
    } else {
      const bool is_before = find_pass(name).stage == PassStage::kBeforeQuantizing;
      (is_before ? options.before : options.improve).push_back(name);
    }
  }
  write_bits_as_text(options.quantize);
  return options;
}

/// "int4", "'conv1=8,fc=8/8'"
std::string flag_value(const std::string& name, const Value& value) {
  std::vector<std::string> texts;
  if (const auto* list = value.get_if<List>()) {
    for (const Value& part : *list) texts.push_back(*part.get_if<std::string>());
  } else {
    texts.push_back(*value.get_if<std::string>());
  }
  const bool has_patterns = name == kBits || name == kKeepFloat;
  const char* const quote = has_patterns ? "'" : "";
  return fmt::format("{0}{1}{0}", quote, fmt::join(texts, ","));
}

/// As flags of `detent quantize`: those of `options` that `given` has otherwise.
std::string changed_flags(const Options& options, const Options& given) {
  std::vector<std::string> flags;
  if (options.improve != given.improve || options.before != given.before) {
    std::vector<std::string> passes = options.before;
    passes.insert(passes.end(), options.improve.begin(), options.improve.end());
    flags.push_back(fmt::format("--improve {}", fmt::join(passes, ",")));
  }
  for (const auto& [name, value] : options.quantize) {
    const Value* before = given.quantize.find(name);
    if (before != nullptr && *before == value) continue;
    std::string flag = "--" + name;
    std::ranges::replace(flag, '_', '-');
    flags.push_back(fmt::format("{} {}", flag, flag_value(name, value)));
  }
  return fmt::format("{}", fmt::join(flags, " "));
}

/// The pass of `options` that chooses the values of weights; "": none.
std::string choosing_pass(const Options& options) {
  const auto chooses = [](const std::string& pass) {
    return find_pass(pass).stage == PassStage::kRoundingWeights;
  };
  const auto found = std::ranges::find_if(options.improve, chooses);
  return found == options.improve.end() ? "" : *found;
}

/// The same samples without the first ones.
class LaterSamples final : public CalibrationSet {
 public:
  LaterSamples(std::unique_ptr<CalibrationSet> all, int64_t first) : all_(std::move(all)), first_(first) {}

  int64_t size() const override { return all_->size() - first_; }
  std::vector<Tensor> inputs(int64_t begin, int64_t end) const override {
    return all_->inputs(first_ + begin, first_ + end);
  }
  int64_t same_size_end(int64_t begin, int64_t end) const override {
    return all_->same_size_end(first_ + begin, first_ + end) - first_;
  }
  uint64_t fingerprint() const override { return all_->fingerprint(); }

 private:
  std::unique_ptr<CalibrationSet> all_;
  int64_t first_;
};

/// Bits of a stored weight, without its scale; 32 of one that is not quantized.
double bits_of_weight(const Node& node) {
  constexpr double kFloat = 32;
  const Quantizer* quantizer = node.find_quantizer("weight");
  return quantizer == nullptr ? kFloat : bits_per_value(quantizer->spec.format);
}

int integer_width(const Quantizer& quantizer) {
  const std::optional<IntegerCodes> integers = integer_codes(quantizer.spec.format);
  return integers ? integers->width : 0;
}

/// Values of the same width keep the ranges that more samples showed.
void take_ranges(const Graph& quantized, Graph& graph) {
  std::map<const Quantizer*, QuantizerRef> taken;
  for (Node& node : graph.nodes()) {
    for (auto& [operand, quantizer] : node.quantization) {
      const Quantizer* before =
          operand == "weight" ? nullptr : quantized.node(node.name).find_quantizer(operand);
      if (before == nullptr || integer_width(*before) == 0 ||
          integer_width(*before) != integer_width(*quantizer))
        continue;
      quantizer = taken.try_emplace(before, QuantizerRef(*before)).first->second;
    }
  }
}

class Advisor {
 public:
  Advisor(const QuantizedNetwork& network, const LayerwiseErrors& errors, PassContext& context)
      : network_(network),
        errors_(errors),
        context_(context.quiet()),
        data_(context.open_calibration()),
        sizes_(sample_sizes(*data_, network.reference)),
        given_(options_of(network.passes)),
        taken_(given_) {
    context_.where = "advice";
    context_.checkpoint_every = 0;
    advice_.output_sqnr_db = errors.output_sqnr_db;
    advice_.weight_bytes = storage_bits(network.quantized).weight_bytes();
  }

  QuantizationAdvice run() {
    const bool is_open = !errors_.measured_output.empty() && advice_.output_sqnr_db < kFine;
    const std::string chosen = choosing_pass(given_);
    const bool is_slow =
        !chosen.empty() && chosen != kGptqPass && chosen != kGptaqPass;  // to choose them again
    if (!is_open || is_slow || !take_samples()) return std::move(advice_);
    best_ = {"", advice_.output_sqnr_db, advice_.weight_bytes};
    try_better_weights();
    try_rotation();
    try_more_bits();
    confirm();
    return std::move(advice_);
  }

 private:
  /// As many as are affordable, beside those that the SQNR is measured on where there are enough.
  bool take_samples() {
    constexpr double kShare = 1.0 / 6;
    constexpr double kFewest = 8;
    const double affordable = choosing_cost(network_.reference, RoundingTarget::kSameInputs, sizes_)
                                  .samples_for(kShare * kMostAdviceProducts);
    if (affordable < kFewest) return false;
    StaticQuantizeOptions options;
    read_fields(options, given_.quantize, context_.where);
    const int64_t most = std::min(options.num_samples, data_->size());
    advice_.samples = static_cast<int64_t>(std::min(std::floor(affordable), static_cast<double>(most)));
    const int64_t measured = errors_.samples;
    wanted_samples_ = most;
    most_samples_ = data_->size();
    if (measured + advice_.samples <= data_->size()) {
      most_samples_ -= measured;
      context_.open_calibration = [open = context_.open_calibration, measured] {
        return std::make_unique<LaterSamples>(open(), measured);
      };
    }
    return true;
  }

  double cost(const Options& options) const {
    const std::string chosen = choosing_pass(options);
    const RoundingTarget target =
        chosen == kGptaqPass ? RoundingTarget::kFloatNetwork : RoundingTarget::kSameInputs;
    const auto samples = static_cast<double>(advice_.samples);
    const double each = multiply_adds(network_.reference, sizes_);
    constexpr double kRuns = 3;  // for biases, and for ranges of other values
    const ChoosingCost of_choosing = choosing_cost(network_.reference, target, sizes_);
    double choosing = chosen.empty() ? kRuns * each * samples : of_choosing.of(samples);
    if (chosen == kSignRound)
      choosing += static_cast<double>(SignRoundOptions().iterations) * of_choosing.per_step;
    if (options.before != given_.before) choosing += each * samples;  // for ranges of what is rotated
    return choosing + 2 * each * static_cast<double>(errors_.samples);
  }

  /// Tries better weights that take no more bytes, and keeps the best.
  void try_better_weights() {
    const auto is_narrow = [](const Node& node) {
      constexpr double kEight = 8;
      return is_weighted_sum(node) && bits_of_weight(node) < kEight;
    };
    if (std::ranges::none_of(network_.quantized.nodes(), is_narrow)) return;
    std::optional<Tried> best;
    const auto try_one = [&](const Options& options) {
      const std::optional<TriedOptions> tried = better(options);
      if (tried && (!best || tried->output_sqnr_db > best->outcome.output_sqnr_db))
        best = Tried{options, *tried};
    };
    Options options = taken_;
    for (const char* pass : {kGptqPass, kGptaqPass, kSignRound}) {
      options.improve = {pass, "bias_correction"};
      if (options.improve != taken_.improve) try_one(options);
    }
    StaticQuantizeOptions read;
    read_fields(read, taken_.quantize, context_.where);
    const auto& other = read.weights.other;
    const bool has_ranges =
        read.weights.is_integer() ||
        (other && is_ranged(other->format) && !block_size(other->format) && !is_fitted(other->format));
    if (has_ranges && !taken_.quantize.contains("weight_calibrator")) {
      options = best ? best->options : taken_;
      options.quantize["weight_calibrator"] = "mse";
      try_one(options);
    }
    if (best) take(*best);
  }

  /// Where few values have to hold outliers beside the rest.
  void try_rotation() {
    constexpr double kEight = 8;
    StaticQuantizeOptions read;
    read_fields(read, taken_.quantize, context_.where);
    const bool is_rotated = std::ranges::find(taken_.before, kHadamard) != taken_.before.end();
    if (is_rotated || read.activations.bits() >= kEight) return;
    Options options = taken_;
    options.before.emplace_back(kHadamard);
    if (const std::optional<TriedOptions> tried = better(options)) take({options, *tried});
  }

  /// Few samples tell which options are best, but not how good: weights that are chosen on more of them are
  /// better. So what is taken is measured again, on as many as following the advice would take or, where
  /// these are too many, as are affordable.
  void confirm() {
    if (kept_.empty()) return;
    const double each = kMostConfirmedProducts / static_cast<double>(kept_.size());
    const auto affordable = static_cast<int64_t>(
        choosing_cost(network_.reference, RoundingTarget::kFloatNetwork, sizes_).samples_for(each));
    const int64_t samples = std::min({affordable, wanted_samples_, most_samples_});
    if (samples < 2 * advice_.samples) return;
    advice_.samples = samples;
    measured_.reset();
    rotated_measured_.reset();
    double before = advice_.output_sqnr_db;
    std::vector<TriedOptions> confirmed;
    for (const Options& options : kept_) {
      TriedOptions again = measured(options);
      if (!(again.output_sqnr_db > before + kLittle)) break;
      before = again.output_sqnr_db;
      confirmed.push_back(std::move(again));
    }
    advice_.tried = std::move(confirmed);
  }

  /// The nodes whose float form wins most for the bytes of more bits.
  std::vector<const NodeError*> best_nodes() const {
    constexpr double kLeast = 0.1;
    constexpr size_t kMost = 3;
    std::vector<std::pair<double, const NodeError*>> nodes;
    for (const NodeError& node : errors_.nodes) {
      const double gain = node.output_gain.value_or(0);
      if (!(gain >= kLeast)) continue;
      nodes.emplace_back(gain / more_bytes(node), &node);
    }
    std::ranges::stable_sort(nodes, std::greater<>(), &std::pair<double, const NodeError*>::first);
    nodes.resize(std::min(nodes.size(), kMost));
    std::vector<const NodeError*> best;
    for (const auto& [rate, node] : nodes) best.push_back(node);
    return best;
  }

  /// At least 1, of nodes without weights.
  double more_bytes(const NodeError& error) const {
    constexpr double kWide = 8;
    constexpr double kFloat = 32;
    const Node& node = network_.quantized.node(error.node);
    if (!is_weighted_sum(node)) return 1;
    const double more = (error.more_bits.empty() ? kFloat : kWide) - bits_of_weight(node);
    const auto values = static_cast<double>(node.find_parameter("weight")->tensor.numel());
    return std::max(1.0, more * values / 8);
  }

  /// Tries more bits for the best nodes, and one more for all weights: takes what wins more for its bytes.
  void try_more_bits() {
    std::optional<Tried> best;
    for (const std::optional<Options>& options : {with_wider_nodes(), with_wider_weights()}) {
      if (!options) continue;
      const std::optional<TriedOptions> tried = better(*options);
      if (tried && (!best || gain_per_byte(*tried) > gain_per_byte(best->outcome)))
        best = Tried{*options, *tried};
    }
    if (best) take(*best);
  }

  double gain_per_byte(const TriedOptions& tried) const {
    const auto more = static_cast<double>(tried.weight_bytes - best_.weight_bytes);
    return (tried.output_sqnr_db - best_.output_sqnr_db) / std::max(1.0, more);
  }

  std::optional<Options> with_wider_weights() const {
    StaticQuantizeOptions read;
    read_fields(read, taken_.quantize, context_.where);
    if (!read.weights.is_integer() || read.weights.integer.width >= 8) return std::nullopt;
    Options options = taken_;
    options.quantize["weights"] = IntegerType{true, read.weights.integer.width + 1}.to_value();
    return options;
  }

  std::optional<Options> with_wider_nodes() const {
    const std::vector<const NodeError*> nodes = best_nodes();
    if (nodes.empty()) return std::nullopt;
    Options options = taken_;
    std::vector<std::string> wider;
    List in_float;
    for (const NodeError* node : nodes) {
      if (node->more_bits.empty()) {
        in_float.emplace_back(node->node);
      } else {
        wider.push_back(node->more_bits);
      }
    }
    if (!wider.empty()) {
      if (const Value* bits = options.quantize.find(kBits)) wider.push_back(*bits->get_if<std::string>());
      options.quantize[kBits] = fmt::format("{}", fmt::join(wider, ","));
    }
    if (!in_float.empty()) {
      if (const Value* kept = options.quantize.find(kKeepFloat))
        std::ranges::copy(*kept->get_if<List>(), std::back_inserter(in_float));
      options.quantize[kKeepFloat] = std::move(in_float);
    }
    return options;
  }

  /// The options' network, where it is better than the present one, and affordable.
  std::optional<TriedOptions> better(const Options& options) {
    const double products = cost(options);
    if (products > products_left_) return std::nullopt;
    products_left_ -= products;
    try {
      const TriedOptions tried = measured(options);
      const bool is_better =
          std::isfinite(tried.output_sqnr_db) && tried.output_sqnr_db > best_.output_sqnr_db + kLittle;
      return is_better ? std::optional(tried) : std::nullopt;
    } catch (const Error&) {
      return std::nullopt;  // a format whose values no pass chooses, sums that could overflow
    }
  }

  struct Tried {
    Options options;
    TriedOptions outcome;
  };

  void take(const Tried& tried) {
    taken_ = tried.options;
    best_ = tried.outcome;
    kept_.push_back(tried.options);
    advice_.tried.push_back(tried.outcome);
  }

  TriedOptions measured(const Options& options) {
    Graph graph = quantized(options);
    Table passes;
    for (const std::string& name : options.improve) {
      passes[name] = Table();
      if (has_option(find_pass(name), "num_samples")) passes.table(name)["num_samples"] = advice_.samples;
    }
    context_.float_network = nullptr;
    run_pipeline(graph, passes, context_.where, context_);
    const auto program = context_.executor().compile(graph);
    const OutputSqnr sqnr = measure_output_sqnr(
        {network_.reference, graph, in_float(), *program, context_.executor()}, {}, *data_, errors_.samples);
    return {changed_flags(options, given_), sqnr.quantized, storage_bits(graph).weight_bytes()};
  }

  /// Made when something is tried: it is as large as the network.
  const Program& in_float() {
    if (!in_float_) in_float_ = context_.executor().compile(network_.reference);
    return *in_float_;
  }

  Graph quantized(const Options& given) {
    StaticQuantizeOptions options;
    read_fields(options, given.quantize, context_.where);
    options.num_samples = advice_.samples;
    const auto kept = [](const Options& from) {
      const Value* names = from.quantize.find(kKeepFloat);
      return names == nullptr ? Value() : *names;
    };
    const bool as_given = kept(given) == kept(given_);
    const bool is_rotated = given.before != given_.before;
    const Graph& network = is_rotated ? rotated(options) : network_.reference;
    std::optional<MeasuredNetwork>& measured = is_rotated ? rotated_measured_ : measured_;
    if (as_given && !measured) measured = measured_for(network, options, context_);
    Graph graph =
        quantized_for_integers(network, as_given ? *measured : measured_for(network, options, context_),
                               options, context_)
            .graph;
    if (!is_rotated) take_ranges(network_.quantized, graph);
    return graph;
  }

  /// The float network with rotated inputs. Throws Error where none can be rotated.
  const Graph& rotated(const StaticQuantizeOptions& options) {
    if (rotated_) return *rotated_;
    Table passes{{kHadamard, Table()}};
    fit_rotated_blocks(passes, options);
    Graph graph = network_.reference;
    run_pipeline(graph, passes, context_.where, context_);
    rotated_ = std::move(graph);
    return *rotated_;
  }

  const QuantizedNetwork& network_;
  const LayerwiseErrors& errors_;
  PassContext context_;
  std::unique_ptr<CalibrationSet> data_;
  NamedSizes sizes_;
  std::unique_ptr<const Program> in_float_;
  Options given_;
  Options taken_;
  TriedOptions best_;
  std::vector<Options> kept_;  // of advice_.tried
  int64_t wanted_samples_ = 0;
  int64_t most_samples_ = 0;
  double products_left_ = kMostAdviceProducts;
  std::optional<MeasuredNetwork> measured_;  // activations, where the nodes that were given stay in float
  std::optional<Graph> rotated_;
  std::optional<MeasuredNetwork> rotated_measured_;
  QuantizationAdvice advice_;
};

}  // namespace

std::string QuantizationAdvice::text() const {
  if (tried.empty()) return "";
  std::string text = fmt::format("tried with {} calibration samples, best for their bytes first:\n", samples);
  for (const TriedOptions& one : tried) {
    const int64_t more = one.weight_bytes - weight_bytes;
    text += fmt::format(
        "  {}: {:.1f} dB ({:+.1f} dB), {}\n", one.options, one.output_sqnr_db,
        one.output_sqnr_db - output_sqnr_db,
        more <= 0 ? "no more bytes"
                  : fmt::format("{} bytes more ({:+.1f} %)", more,
                                100.0 * static_cast<double>(more) / static_cast<double>(weight_bytes)));
  }
  return text;
}

Value QuantizationAdvice::to_value() const {
  List list;
  for (const TriedOptions& one : tried) {
    list.push_back(Table{{"options", one.options},
                         {"sqnr_db", one.output_sqnr_db},
                         {"gain_db", one.output_sqnr_db - output_sqnr_db},
                         {"weight_bytes", one.weight_bytes}});
  }
  return list;
}

QuantizationAdvice advise_quantization(const QuantizedNetwork& network, const LayerwiseErrors& errors,
                                       PassContext& context) {
  return Advisor(network, errors, context).run();
}

}  // namespace detent
