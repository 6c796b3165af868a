#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "detent/language/networks_for_test.h"

namespace detent {

/// Oracle: a language model on one sequence, in loops over doubles, with the weights that a WeightsForTest
/// has given.
class PlainNetwork {
 public:
  using Rows = std::vector<std::vector<double>>;

  PlainNetwork(const LanguageConfig& config, const WeightsForTest& weights)
      : config_(config), weights_(weights) {}

  /// Logits, or the last hidden state, of each token. `mask` is 0 where a token is not seen.
  Rows run(const std::vector<int64_t>& tokens, const std::vector<int64_t>& mask) const {
    Rows x = embedded(tokens, mask);
    for (int64_t i = 0; i < config_.layers; ++i) {
      const std::string name = "layers." + std::to_string(i) + ".";
      const auto attend = [&](const Rows& y) {
        return config_.layer_convolves(i) ? convolution(name + "convolution", y, mask)
                                          : attention(i, y, mask);
      };
      const auto perceive = [&](const Rows& y) {
        return config_.layer_has_experts(i) ? experts(name + "experts.", y)
                                            : perceptron(name + "perceptron", y);
      };
      if (config_.perceptron_place == PerceptronPlace::kAfter) {
        x = block(block(x, name + "attention", attend), name + "perceptron", perceive);
      } else {
        const Rows first = norm(name + "attention_norm", x);
        const bool has_one = config_.perceptron_place == PerceptronPlace::kBesideOneNorm;
        const Rows second = has_one ? first : norm(name + "perceptron_norm", x);
        x = sum(sum(attend(first), perceive(second)), x);
      }
    }
    if (config_.final_norm) x = norm("norm", x);
    if (!config_.is_causal) return x;
    if (config_.token_size() != config_.hidden) x = linear("project_out", x);
    Rows y = linear(config_.tied_head ? "embed_tokens" : "head", x);
    each(y, [&](double v) { return v * config_.logit_scale; });
    if (config_.logit_cap)
      each(y, [&](double v) { return *config_.logit_cap * std::tanh(v / *config_.logit_cap); });
    return y;
  }

 private:
  template <class Function>
  static void each(Rows& rows, Function function) {
    for (auto& row : rows) std::ranges::transform(row, row.begin(), function);
  }
  static Rows sum(Rows a, const Rows& b) {
    for (size_t i = 0; i < a.size(); ++i) {
      for (size_t j = 0; j < a[i].size(); ++j) a[i][j] += b[i][j];
    }
    return a;
  }
  std::span<const float> values(const std::string& name) const { return weights_.at(name).values<float>(); }

  Rows linear(const std::string& name, const Rows& x) const {
    const Tensor& weight = weights_.at(name + ".weight");
    const auto in = static_cast<size_t>(weight.dim(1));
    Rows result;
    for (const auto& row : x) {
      std::vector<double> y(static_cast<size_t>(weight.dim(0)));
      for (size_t o = 0; o < y.size(); ++o) {
        for (size_t k = 0; k < in; ++k)
          y[o] += static_cast<double>(weight.values<float>()[o * in + k]) * row[k];
        if (weights_.has(name + ".bias")) y[o] += static_cast<double>(values(name + ".bias")[o]);
      }
      result.push_back(std::move(y));
    }
    return result;
  }

  void norm_row(const std::string& name, std::span<double> row) const {
    const bool centres = config_.norm == NormKind::kLayerNorm;
    const auto size = static_cast<double>(row.size());
    double mean = 0;
    double square = 0;
    if (centres) {
      for (const double v : row) mean += v / size;
    }
    for (const double v : row) square += (v - mean) * (v - mean) / size;
    for (size_t i = 0; i < row.size(); ++i) {
      row[i] = (row[i] - mean) / std::sqrt(square + config_.norm_eps) *
               static_cast<double>(values(name + ".weight")[i]);
      if (centres && config_.norm_bias) row[i] += static_cast<double>(values(name + ".bias")[i]);
    }
  }
  Rows norm(const std::string& name, Rows x) const {
    for (auto& row : x) norm_row(name, row);
    return x;
  }

  int64_t position(const std::vector<int64_t>& tokens, const std::vector<int64_t>& mask, size_t at) const {
    if (config_.position_count == PositionCount::kAll)
      return static_cast<int64_t>(at) + config_.position_offset;
    int64_t count = 0;
    const auto counts = [&](size_t i) {
      return config_.position_count == PositionCount::kAttended ? mask[i] != 0 : tokens[i] != *config_.pad;
    };
    for (size_t i = 0; i <= at; ++i) count += counts(i) ? 1 : 0;
    return (counts(at) ? count : 0) + config_.position_offset - 1;
  }

  Rows embedded(const std::vector<int64_t>& tokens, const std::vector<int64_t>& mask) const {
    const auto hidden = static_cast<size_t>(config_.hidden);
    const auto size = static_cast<size_t>(config_.token_size());
    Rows x;
    for (const int64_t token : tokens) {
      const auto row = values("embed_tokens.weight").subspan(static_cast<size_t>(token) * size, size);
      x.emplace_back(row.begin(), row.end());
    }
    if (size != hidden && !config_.embedding_norm) x = linear("project_in", x);
    for (size_t t = 0; t < tokens.size(); ++t) {
      std::vector<double>& row = x[t];
      for (size_t i = 0; i < row.size(); ++i) {
        const auto element = [&](const char* table, int64_t at) {
          return static_cast<double>(values(table)[static_cast<size_t>(at) * row.size() + i]);
        };
        row[i] *= config_.embedding_scale;
        if (config_.positions > 0) row[i] += element("embed_positions.weight", position(tokens, mask, t));
        if (config_.token_types > 0) row[i] += element("embed_types.weight", 0);
      }
    }
    if (!config_.embedding_norm) return x;
    x = norm("embed_norm", x);
    return size != hidden ? linear("project_in", x) : x;
  }

  template <class Part>
  Rows block(const Rows& x, const std::string& name, Part part) const {
    if (config_.norm_place == NormPlace::kAfter) return norm(name + "_norm", sum(x, part(x)));
    const bool has_none =
        config_.norm_place == NormPlace::kAfterPart || (!config_.first_norm && name == "layers.0.attention");
    Rows y = part(has_none ? x : norm(name + "_norm", x));
    if (config_.norm_place != NormPlace::kBefore) y = norm(name + "_post_norm", y);
    each(y, [&](double v) { return v * config_.residual_scale; });
    return sum(x, y);
  }

  void turn(const Rotary& rotary, std::span<double> head, size_t position, size_t total) const {
    const bool is_long = !rotary.long_frequencies.empty() && static_cast<int64_t>(total) > rotary.long_from;
    const auto& frequencies = is_long ? rotary.long_frequencies : rotary.frequencies;
    const double length =
        std::max<double>(static_cast<double>(total), static_cast<double>(rotary.grows_from));
    const double growth =
        rotary.growth > 0
            ? rotary.growth * length / static_cast<double>(rotary.grows_from) - (rotary.growth - 1)
            : 1;
    for (size_t i = 0; i < frequencies.size(); ++i) {
      const double share =
          static_cast<double>(i) / std::max(1.0, static_cast<double>(frequencies.size()) - 1);
      const double angle =
          static_cast<double>(position) * static_cast<double>(frequencies[i]) * std::pow(growth, -share);
      const double a = head[i];
      const double b = head[i + frequencies.size()];
      head[i] = (a * std::cos(angle) - b * std::sin(angle)) * rotary.factor;
      head[i + frequencies.size()] = (b * std::cos(angle) + a * std::sin(angle)) * rotary.factor;
    }
  }

  Rows limited(Rows x) const {
    if (const auto& limit = config_.qkv_limit)
      each(x, [&](double v) { return std::clamp(v, -*limit, *limit); });
    return x;
  }

  /// Queries or keys, normed and turned.
  Rows placed(const std::string& name, const Rows& x, const Rotary& rotary) const {
    Rows y = limited(linear(name, x));
    if (config_.qk_norm_of_all) y = norm(name + "_norm", y);
    const auto size = static_cast<size_t>(config_.head_size);
    for (size_t t = 0; t < y.size(); ++t) {
      for (size_t begin = 0; begin < y[t].size(); begin += size) {
        const std::span<double> head(y[t].data() + begin, size);
        if (config_.qk_norm) norm_row(name + "_norm", head);
        turn(rotary, head, t, y.size());
      }
    }
    return y;
  }

  /// Has 12 rows: distances 0, 1, 2, those below 3 (128 / 3)^(1 / 3) = 10.5 and ^(2 / 3) = 36.6, and others.
  double distance_bias(size_t key, size_t query, size_t head) const {
    if (config_.distance_slopes > 0) {  // of 6 heads: slopes of 4, then those between
      const double at[] = {1, 2, 3, 4, 0.5, 1.5};
      const double slope = std::exp2(-config_.distance_slopes * at[head] / 4);
      return slope * (static_cast<double>(key) - static_cast<double>(query));
    }
    if (config_.distances == 0) return 0;
    const size_t distance = key > query ? key - query : query - key;
    const size_t row = distance < 3 ? distance : distance < 11 ? 3 : distance < 37 ? 4 : 5;
    return static_cast<double>(values(
        "distance_bias.weight")[((key > query ? 6 : 0) + row) * static_cast<size_t>(config_.heads) + head]);
  }

  Rows convolution(const std::string& name, Rows x, const std::vector<int64_t>& mask) const {
    for (size_t t = 0; t < x.size(); ++t) {
      for (double& v : x[t]) v *= static_cast<double>(mask[t]);
    }
    const Rows parts = linear(name + ".input", x);
    const auto width = static_cast<size_t>(config_.short_convolution.width);
    Rows y = x;
    for (size_t t = 0; t < x.size(); ++t) {
      for (size_t i = 0; i < x[t].size(); ++i) {
        const size_t size = x[t].size();
        double sum = config_.short_convolution.bias ? static_cast<double>(values(name + ".taps.bias")[i]) : 0;
        for (size_t back = 0; back < std::min(width, t + 1); ++back) {
          const auto& row = parts[t - back];
          sum += row[i] * row[2 * size + i] *
                 static_cast<double>(values(name + ".taps.weight")[(i + 1) * width - 1 - back]);
        }
        y[t][i] = parts[t][size + i] * sum;
      }
    }
    return linear(name + ".output", y);
  }

  Rows attention(int64_t layer, const Rows& x, const std::vector<int64_t>& mask) const {
    const std::string name = "layers." + std::to_string(layer) + ".attention.";
    const Rotary& turning = config_.layer_has_window(layer) ? config_.window_rotary : config_.rotary;
    const Rotary rotary = config_.layer_turns(layer) ? turning : Rotary{};
    const Rows q = placed(name + "query", x, rotary);
    const Rows k = placed(name + "key", x, rotary);
    const Rows v = limited(linear(name + "value", x));
    const auto size = static_cast<size_t>(config_.head_size);
    const auto group = static_cast<size_t>(config_.heads / config_.kv_heads);
    const double scale =
        (config_.attention_scale != 0 ? config_.attention_scale : 1 / std::sqrt(static_cast<double>(size))) /
        (config_.divides_by_layer ? static_cast<double>(layer + 1) : 1);
    Rows y(x.size(), std::vector<double>(q[0].size()));
    for (size_t t = 0; t < x.size(); ++t) {
      for (size_t h = 0; h < static_cast<size_t>(config_.heads); ++h) {
        std::vector<double> shares(x.size());
        double total = 0;
        for (size_t s = 0; s < x.size(); ++s) {
          const auto window = static_cast<size_t>(config_.window);
          const bool in_window = !config_.layer_has_window(layer) ||
                                 (config_.is_causal ? s + window > t : s + window >= t && t + window >= s);
          if (mask[s] == 0 || !in_window || (config_.is_causal && s > t)) continue;
          double score = 0;
          for (size_t i = 0; i < size; ++i) score += scale * q[t][h * size + i] * k[s][h / group * size + i];
          score += distance_bias(s, t, h);
          if (config_.score_cap) score = *config_.score_cap * std::tanh(score / *config_.score_cap);
          shares[s] = std::exp(score);
          total += shares[s];
        }
        for (size_t s = 0; s < x.size() && total > 0; ++s) {
          for (size_t i = 0; i < size; ++i)
            y[t][h * size + i] += shares[s] / total * v[s][h / group * size + i];
        }
      }
    }
    return linear(name + "output", y);
  }

  Rows experts(const std::string& name, const Rows& x) const {
    const Experts& experts = config_.experts;
    const Rows scores = linear(name + "router", x);
    Rows sum(x.size(), std::vector<double>(x[0].size()));
    for (int64_t e = 0; e < experts.count; ++e) {
      const Rows y = perceptron(name + std::to_string(e), x);
      for (size_t t = 0; t < x.size(); ++t) {
        const double own = scores[t][static_cast<size_t>(e)];
        double total = 0;
        int64_t better = 0;
        for (const double score : scores[t]) better += score > own ? 1 : 0;
        if (better >= experts.used) continue;
        for (const double score : scores[t]) {
          int64_t above = 0;
          for (const double other : scores[t]) above += other > score ? 1 : 0;
          if (!experts.normalized || above < experts.used) total += std::exp(score - own);
        }
        for (size_t i = 0; i < y[t].size(); ++i) sum[t][i] += y[t][i] / total;
      }
    }
    if (experts.shared == 0) return sum;
    const Rows shared = perceptron(name + "shared", x);
    const Rows gate = experts.shared_gate ? linear(name + "shared_router", x) : Rows();
    for (size_t t = 0; t < x.size(); ++t) {
      const double share = gate.empty() ? 1 : 1 / (1 + std::exp(-gate[t][0]));
      for (size_t i = 0; i < sum[t].size(); ++i) sum[t][i] += share * shared[t][i];
    }
    return sum;
  }

  double xielu(const std::string& name, double x) const {
    const auto parameter = [&](const char* end) { return static_cast<double>(values(name + end)[0]); };
    const double slope = parameter(".slope.weight");
    const double positive = std::log1p(std::exp(parameter(".positive.weight")));
    const double negative = slope + std::log1p(std::exp(parameter(".negative.weight")));
    if (x > 0) return positive * x * x + slope * x;
    return negative * (std::expm1(std::min(x, parameter(".least.weight"))) - x) + slope * x;
  }

  double activated(const std::string& name, double x) const {
    constexpr double kCubic = 0.044715;
    switch (config_.activation) {
      case Activation::kXielu:
        return xielu(name, x);
      case Activation::kRelu:
        return std::max(x, 0.0);
      case Activation::kSquaredRelu:
        return std::max(x, 0.0) * std::max(x, 0.0);
      case Activation::kGelu:
        return x / 2 * (1 + std::erf(x / std::sqrt(2.0)));
      case Activation::kGeluTanh:
        return x / 2 * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + kCubic * x * x * x)));
      case Activation::kTanh:
        return std::tanh(x);
      case Activation::kSilu:
        break;
    }
    return x / (1 + std::exp(-x));
  }

  Rows perceptron(const std::string& name, const Rows& x) const {
    Rows up = linear(name + ".up", x);
    if (config_.perceptron == PerceptronKind::kPlain) {
      each(up, [&](double v) { return activated(name + ".activation", v); });
    } else {
      const Rows gate = linear(name + ".gate", x);
      for (size_t t = 0; t < up.size(); ++t) {
        for (size_t i = 0; i < up[t].size(); ++i) up[t][i] *= activated(name + ".activation", gate[t][i]);
      }
    }
    return linear(name + ".down", up);
  }

  const LanguageConfig& config_;
  const WeightsForTest& weights_;
};

}  // namespace detent
