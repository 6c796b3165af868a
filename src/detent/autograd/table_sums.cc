#include "detent/autograd/table_sums.h"

#include <algorithm>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include "detent/core/error.h"

namespace detent {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct ResidualSigns : torch::autograd::Function<ResidualSigns> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& gamma) {
    std::vector<at::Tensor> signs;
    at::Tensor left = x;
    for (int64_t level = 0; level < gamma.numel(); ++level) {
      signs.push_back(at::where(left.ge(0), at::ones_like(x), at::full_like(x, -1)));
      left = left.sub(signs.back().mul(gamma[level]));
    }
    context->save_for_backward({x, gamma});
    return at::stack(signs);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor reach = saved[1].sum();
    return {gradients[0].sum(0).mul(saved[0].abs().le(reach)).div(reach), at::Tensor()};
  }
};

struct TableSigns : torch::autograd::Function<TableSigns> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    return at::where(x.ge(0), at::ones_like(x), at::full_like(x, -1));
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    return {gradients[0].mul(context->get_saved_variables()[0].abs().le(1))};
  }
};

/// Columns whose addresses are computed at a time: they stay in the nearest cache.
constexpr int64_t kColumns = 256;

struct Tables {
  int64_t levels, elements, columns;
  int64_t outputs, count, fan_in;  // `count` tables of each output and sum
  int64_t sums, entries, base;
  const int64_t* inputs;
  const float* values;
  std::vector<uint8_t> digits;  // [levels, elements, columns]

  Tables(const at::Tensor& signs, const at::Tensor& of_inputs, const at::Tensor& of_values, int64_t in_base)
      : levels(signs.size(0)),
        elements(signs.size(1)),
        columns(signs.size(2)),
        outputs(of_inputs.size(0)),
        count(of_inputs.size(1)),
        fan_in(of_inputs.size(2)),
        sums(of_values.size(2)),
        entries(of_values.size(3)),
        base(in_base),
        inputs(of_inputs.data_ptr<int64_t>()),
        values(of_values.data_ptr<float>()),
        digits(static_cast<size_t>(signs.numel())) {
    const float* sign = signs.data_ptr<float>();
    const float middle = base == 2 ? 0.0F : 1.0F;
    for (size_t i = 0; i < digits.size(); ++i)
      digits[i] = static_cast<uint8_t>(base == 2 ? sign[i] > 0 : sign[i] + middle);
  }

  const int64_t* inputs_of(int64_t output, int64_t table) const {
    return inputs + (output * count + table) * fan_in;
  }
  int64_t first_value(int64_t output, int64_t table, int64_t sum) const {
    return ((output * count + table) * sums + sum) * entries;
  }
  int64_t sums_of_level() const { return sums / levels; }

  /// Calls `body(table, level, addresses)` for each table of an output, with the addresses of the columns
  /// [begin, end).
  template <class Body>
  void for_tables(int64_t output, int64_t begin, int64_t end, const Body& body) const {
    uint16_t addresses[kColumns];
    for (int64_t table = 0; table < count; ++table) {
      const int64_t* input = inputs_of(output, table);
      if (input[0] < 0) continue;
      for (int64_t level = 0; level < levels; ++level) {
        std::fill_n(addresses, end - begin, uint16_t{0});
        uint16_t place = 1;
        for (int64_t k = 0; k < fan_in; ++k) {
          const uint8_t* digit = digits.data() + (level * elements + input[k]) * columns;
          for (int64_t m = begin; m < end; ++m)
            addresses[m - begin] = static_cast<uint16_t>(addresses[m - begin] + digit[m] * place);
          place = static_cast<uint16_t>(place * base);
        }
        body(table, level, addresses);
      }
    }
  }
};

void sum_tables(const Tables& tables, float* result) {
  at::parallel_for(0, tables.outputs, 1, [&](int64_t first, int64_t last) {
    for (int64_t output = first; output < last; ++output) {
      for (int64_t begin = 0; begin < tables.columns; begin += kColumns) {
        const int64_t end = std::min(begin + kColumns, tables.columns);
        tables.for_tables(output, begin, end, [&](int64_t table, int64_t level, const uint16_t* addresses) {
          const int64_t each = tables.sums_of_level();
          for (int64_t sum = level * each; sum < (level + 1) * each; ++sum) {
            const float* values = tables.values + tables.first_value(output, table, sum);
            float* row = result + (sum * tables.outputs + output) * tables.columns;
            for (int64_t m = begin; m < end; ++m) row[m] += values[addresses[m - begin]];
          }
        });
      }
    }
  });
}

void add_value_gradients(const Tables& tables, const float* gradient, float* of_values) {
  at::parallel_for(0, tables.outputs, 1, [&](int64_t first, int64_t last) {
    for (int64_t output = first; output < last; ++output) {
      for (int64_t begin = 0; begin < tables.columns; begin += kColumns) {
        const int64_t end = std::min(begin + kColumns, tables.columns);
        tables.for_tables(output, begin, end, [&](int64_t table, int64_t level, const uint16_t* addresses) {
          const int64_t each = tables.sums_of_level();
          for (int64_t sum = level * each; sum < (level + 1) * each; ++sum) {
            float* values = of_values + tables.first_value(output, table, sum);
            const float* row = gradient + (sum * tables.outputs + output) * tables.columns;
            for (int64_t m = begin; m < end; ++m) values[addresses[m - begin]] += row[m];
          }
        });
      }
    }
  });
}

/// Half the gain of a table from -1 to 1 of the input whose digit counts `place`, by address.
void find_slopes(const Tables& tables, const float* values, int64_t place, float* slopes) {
  for (int64_t address = 0; address < tables.entries; ++address) {
    const int64_t lowest = address - address / place % tables.base * place;
    slopes[address] = (values[lowest + (tables.base - 1) * place] - values[lowest]) / 2;
  }
}

/// Parted by columns, since outputs share the signs.
void add_sign_gradients(const Tables& tables, const float* gradient, float* of_signs) {
  constexpr int64_t kGrain = 32;
  const int64_t parts = (tables.columns + kGrain - 1) / kGrain;
  at::parallel_for(0, parts, 1, [&](int64_t first, int64_t last) {
    std::vector<float> slopes(static_cast<size_t>(tables.entries));
    const int64_t stop = std::min(last * kGrain, tables.columns);
    for (int64_t begin = first * kGrain; begin < stop; begin += kColumns) {
      const int64_t end = std::min(begin + kColumns, stop);
      for (int64_t output = 0; output < tables.outputs; ++output) {
        tables.for_tables(output, begin, end, [&](int64_t table, int64_t level, const uint16_t* addresses) {
          const int64_t each = tables.sums_of_level();
          for (int64_t sum = level * each; sum < (level + 1) * each; ++sum) {
            const float* values = tables.values + tables.first_value(output, table, sum);
            const float* row = gradient + (sum * tables.outputs + output) * tables.columns;
            int64_t place = 1;
            for (int64_t k = 0; k < tables.fan_in; ++k, place *= tables.base) {
              find_slopes(tables, values, place, slopes.data());
              float* target =
                  of_signs + (level * tables.elements + tables.inputs_of(output, table)[k]) * tables.columns;
              for (int64_t m = begin; m < end; ++m) target[m] += row[m] * slopes[addresses[m - begin]];
            }
          }
        });
      }
    }
  });
}

struct TableSums : torch::autograd::Function<TableSums> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& signs, const at::Tensor& inputs,
                            const at::Tensor& values, int64_t base) {
    const at::Tensor dense_signs = signs.contiguous();
    const at::Tensor dense_values = values.contiguous();
    const Tables tables(dense_signs, inputs, dense_values, base);
    at::Tensor result = at::zeros({tables.sums, tables.outputs, tables.columns}, at::kFloat);
    sum_tables(tables, result.data_ptr<float>());
    context->save_for_backward({dense_signs, inputs, dense_values});
    context->saved_data["base"] = base;
    context->saved_data["of_signs"] = signs.requires_grad();
    return result;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor gradient = gradients[0].contiguous();
    const Tables tables(saved[0], saved[1], saved[2], context->saved_data["base"].toInt());
    at::Tensor of_values = at::zeros(saved[2].sizes(), at::kFloat);
    add_value_gradients(tables, gradient.data_ptr<float>(), of_values.data_ptr<float>());
    at::Tensor of_signs;
    if (context->saved_data["of_signs"].toBool()) {
      of_signs = at::zeros(saved[0].sizes(), at::kFloat);
      add_sign_gradients(tables, gradient.data_ptr<float>(), of_signs.data_ptr<float>());
    }
    return {of_signs, at::Tensor(), of_values, at::Tensor()};
  }
};

}  // namespace

at::Tensor residual_signs(const at::Tensor& x, const at::Tensor& gamma) {
  return ResidualSigns::apply(x, gamma);
}

at::Tensor table_signs(const at::Tensor& x) { return TableSigns::apply(x); }

at::Tensor table_sums(const at::Tensor& signs, const at::Tensor& inputs, const at::Tensor& values,
                      int64_t base) {
  DETENT_CHECK(base == 2 || base == 3, "base {}", base);
  DETENT_CHECK(values.size(2) % signs.size(0) == 0, "{} sums of {} levels", values.size(2), signs.size(0));
  return TableSums::apply(signs, inputs.contiguous(), values, base);
}

}  // namespace detent
