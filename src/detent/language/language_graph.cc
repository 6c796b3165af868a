#include "detent/language/language_graph.h"

#include "detent/core/error.h"
#include "detent/graph/operators.h"
#include "detent/language/network/layers.h"

namespace detent {
namespace {

class LanguageGraphBuilder {
 public:
  LanguageGraphBuilder(const LanguageConfig& config, WeightSource& weights)
      : config_(config), net_(config, weights), positions_(net_) {}

  Graph build() {
    NodeInput x = embedded();
    Attention attention(net_, positions_);
    const NodeInput embedding = x;
    for (int64_t i = 0; i < config_.layers; ++i) {
      x = layer(attention, i, x);
      if (i == 0 && config_.convolution.width > 0) x = convolved(embedding, x);
    }
    if (config_.final_norm) x = net_.norm("norm", x, config_.hidden);
    if (is_projected() && config_.is_causal)
      x = net_.linear("project_out", x, config_.hidden, config_.token_size(), false);
    return finished(results_of(x));
  }

 private:
  struct Result {
    std::string name;
    NodeInput value;
  };

  bool is_projected() const { return config_.projects_embedding || config_.token_size() != config_.hidden; }

  /// Where there is a norm, tokens of a size of their own are projected after it, with a bias (ELECTRA).
  NodeInput embedded() {
    const bool is_early = is_projected() && !config_.embedding_norm;
    const int64_t size = config_.embedding_norm ? config_.token_size() : config_.hidden;
    NodeInput x = net_.table("embed_tokens", positions_.tokens(), config_.vocabulary, config_.token_size());
    if (is_early) x = net_.linear("project_in", x, config_.token_size(), size, false);
    if (config_.embedding_scale != 1) x = net_.call("mul", {x, number_input(config_.embedding_scale)});
    if (config_.token_types > 0)
      x = net_.call("add", {x, net_.table("embed_types", positions_.types(), config_.token_types, size)});
    if (config_.positions > 0)
      x = net_.call("add", {x, net_.table("embed_positions", positions_.rows(), config_.positions, size)});
    if (!config_.embedding_norm) return x;
    x = net_.norm("embed_norm", x, size);
    if (config_.convolution.width > 0) x = net_.call("mul", {x, positions_.seen()});
    return is_projected() ? net_.linear("project_in", x, size, config_.hidden, true) : x;
  }

  template <class Part>
  NodeInput with_norms(const std::string& name, const NodeInput& x, const Part& part) {
    const int64_t size = config_.hidden;
    if (config_.norm_place == NormPlace::kAfter) return net_.norm(name, net_.call("add", {x, part(x)}), size);
    const bool has_none = config_.norm_place == NormPlace::kAfterPart ||
                          (!config_.first_norm && name == "layers.0.attention_norm");
    NodeInput y = part(has_none ? x : net_.norm(name, x, size));
    if (config_.norm_place != NormPlace::kBefore) {
      const std::string after = name.substr(0, name.rfind("_norm")) + "_post_norm";
      y = net_.norm(after, y, size);
    }
    if (config_.residual_scale != 1) y = net_.call("mul", {y, number_input(config_.residual_scale)});
    return net_.call("add", {x, y});
  }

  NodeInput feedforward(int64_t index, const NodeInput& x) {
    if (config_.layer_has_experts(index)) return experts(net_, fmt::format("layers.{}.experts", index), x);
    return perceptron(net_, fmt::format("layers.{}.perceptron", index), x, config_.intermediate,
                      config_.perceptron_bias);
  }

  NodeInput layer(Attention& attention, int64_t index, const NodeInput& x) {
    const std::string target = fmt::format("layers.{}.", index);
    if (config_.perceptron_place != PerceptronPlace::kAfter) {
      const NodeInput first = net_.norm(target + "attention_norm", x, config_.hidden);
      const NodeInput attended = attention.layer(index, first);
      const bool has_one = config_.perceptron_place == PerceptronPlace::kBesideOneNorm;
      const NodeInput second = has_one ? first : net_.norm(target + "perceptron_norm", x, config_.hidden);
      return net_.call("add", {net_.call("add", {attended, feedforward(index, second)}), x});
    }
    const NodeInput y = with_norms(target + "attention_norm", x, [&](const NodeInput& z) {
      return config_.layer_convolves(index) ? short_convolution(net_, positions_, index, z)
                                            : attention.layer(index, z);
    });
    return with_norms(target + "perceptron_norm", y,
                      [&](const NodeInput& z) { return feedforward(index, z); });
  }

  NodeInput convolved(const NodeInput& embedding, const NodeInput& x) {
    const TextConvolution& of = config_.convolution;
    const NodeInput columns = net_.call("permute", {embedding}, {{"dims", std::vector<int64_t>{0, 2, 1}}});
    NodeInput y = net_.named("conv1d", "text_convolution", {columns},
                             {{"weight", net_.weight("text_convolution.weight",
                                                     {config_.hidden, config_.hidden / of.groups, of.width})},
                              {"bias", net_.weight("text_convolution.bias", {config_.hidden})}},
                             {{"padding", std::vector<int64_t>{(of.width - 1) / 2}}, {"groups", of.groups}});
    y = net_.call("permute", {y}, {{"dims", std::vector<int64_t>{0, 2, 1}}});
    y = activated(net_, of.activation, "text_convolution.activation", y);
    return net_.norm("text_convolution_norm", net_.call("add", {x, y}), config_.hidden);
  }

  NodeInput logits(NodeInput x) {
    NodeInput y;
    if (config_.head_layer) {
      x = net_.linear("head_layer", x, config_.hidden, config_.token_size(), config_.head_layer_bias);
      x = net_.norm("head_norm", activated(net_, config_.head_activation, "head_activation", x),
                    config_.token_size());
    }
    if (config_.tied_head) {
      NetworkNodes::Parameters parameters = {
          {"weight", net_.graph().node("embed_tokens").parameters.front().second}};
      if (config_.head_bias) parameters.emplace_back("bias", net_.weight("head.bias", {config_.vocabulary}));
      y = net_.named("linear", "head", {x}, std::move(parameters));
    } else {
      y = net_.linear("head", x, config_.token_size(), config_.vocabulary, config_.head_bias);
    }
    if (config_.logit_scale != 1) y = net_.call("mul", {y, number_input(config_.logit_scale)});
    return config_.logit_cap ? net_.capped(y, *config_.logit_cap) : y;
  }

  std::vector<Result> results_of(const NodeInput& x) {
    const NetworkHead& head = config_.head;
    switch (head.kind) {
      case HeadKind::kNone:
        return {config_.gives_text() ? Result{"logits", logits(x)} : Result{"last_hidden_state", x}};
      case HeadKind::kMaskedTokens:
        return {{"logits", logits(x)}};
      case HeadKind::kMaskedTokensAndLabels: {
        const NodeInput of_tokens = logits(x);
        return {{"prediction_logits", of_tokens}, {head.result, labelled(net_, positions_, x)}};
      }
      case HeadKind::kSpan: {
        const NodeInput parts = split_at(net_, labelled(net_, positions_, x), 1, head.labels);
        const auto part = [&](size_t i) {
          return net_.call("squeeze", {NodeInput::of(parts.node, i), list_input({-1})});
        };
        const NodeInput start = part(0);
        return {{"start_logits", start}, {"end_logits", part(1)}};
      }
      case HeadKind::kEmbedding:
        return {{"last_hidden_state", x}, {head.result, sequence_embedding(net_, positions_, x)}};
      default:
        return {{head.result, labelled(net_, positions_, x)}};
    }
  }

  Graph finished(std::vector<Result> of_network) {
    std::vector<NodeInput> results;
    std::vector<std::string> names;
    for (Result& result : of_network) {
      results.push_back(std::move(result.value));
      names.push_back(std::move(result.name));
    }
    net_.graph().add({.name = "output",
                      .op = "output",
                      .mase_type = MaseType::kOutput,
                      .inputs = std::move(results),
                      .source_names = std::move(names)});
    verify(net_.graph());
    return std::move(net_.graph());
  }

  const LanguageConfig& config_;
  NetworkNodes net_;
  TokenPositions positions_;
};

}  // namespace

Graph build_language_graph(const LanguageConfig& config, WeightSource& weights) {
  check_language_config(config, fmt::format("a network of the family \"{}\"", config.family));
  return LanguageGraphBuilder(config, weights).build();
}

ValueTypes values_of_tokens(const Graph& graph, int64_t tokens) {
  NamedSizes sizes;
  for (const auto& [name, type] : graph.input_types()) {
    for (const Dimension& dimension : type.shape) {
      if (dimension.is_named()) sizes[dimension.symbol] = dimension.symbol == kBatchName ? 1 : tokens;
    }
  }
  return infer_shapes(graph, sizes);
}

}  // namespace detent
