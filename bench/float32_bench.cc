// Softmax, norms and functions of elements by the layer float32, whose bits are the same on every processor,
// against libtorch's, on one thread. The two take turns; prints nanoseconds an element (minima) and the ratio
// of their speeds, libtorch's time / ours (median of the turns). At least 1 is wanted.
//   float32_bench [ROUNDS]
// Not a Google Benchmark: what counts are pairs of turns.

#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/acos.h>
#include <ATen/ops/acosh.h>
#include <ATen/ops/asin.h>
#include <ATen/ops/asinh.h>
#include <ATen/ops/atan.h>
#include <ATen/ops/atanh.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/cosh.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/group_norm.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/sinh.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tan.h>
#include <ATen/ops/tanh.h>
#include <fmt/core.h>

#include "detent/autograd/tensor_memory.h"
#include "detent/autograd/torch_tensor.h"
#include "detent/core/error.h"
#include "detent/core/pair_functions.h"
#include "detent/core/parallel.h"
#include "detent/kernels/functions.h"
#include "detent/kernels/normalization.h"

namespace detent {
namespace {

struct Case {
  std::string name;
  std::vector<int64_t> shape;
  std::function<void(const Tensor& x, Tensor& y)> ours;
  std::function<at::Tensor(const at::Tensor& x)> theirs;
};

double seconds_of(const std::function<void()>& action, int repeats) {
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  };
  const double start = now();
  for (int i = 0; i < repeats; ++i) action();
  return (now() - start) / repeats;
}

void compare(const Case& of, int rounds) {
  const at::Tensor x = at::randn(of.shape);
  const Tensor values = from_torch(x);
  const auto ours = [&] {
    Tensor result = from_torch(at::empty_like(x));  // from the allocator that libtorch takes
    of.ours(values, result);
  };
  const auto theirs = [&] { of.theirs(x); };
  constexpr double kElements = 2e6;
  const int repeats = std::max(1, static_cast<int>(kElements / static_cast<double>(x.numel())));
  seconds_of(ours, repeats);
  seconds_of(theirs, repeats);
  std::vector<double> ratios;
  double least_ours = 1;
  double least_theirs = 1;
  for (int round = 0; round < rounds; ++round) {
    const double a = seconds_of(ours, repeats);
    const double b = seconds_of(theirs, repeats);
    ratios.push_back(b / a);
    least_ours = std::min(least_ours, a);
    least_theirs = std::min(least_theirs, b);
  }
  std::ranges::sort(ratios);
  const double scale = 1e9 / static_cast<double>(x.numel());
  fmt::print("{:<12} {:<18} {:6.3f} ns, libtorch {:6.3f} ns: speed {:.2f}\n", of.name, shape_text(of.shape),
             least_ours * scale, least_theirs * scale, ratios[ratios.size() / 2]);
}

std::vector<Case> row_cases() {
  std::vector<Case> cases;
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{4, 4, 65, 65}, {3, 197, 197}, {64, 1000}}) {
    const int64_t count = shape.back();
    cases.push_back(
        {"softmax", shape,
         [count](const Tensor& x, Tensor& y) { softmax(x.values<float>(), y.values<float>(), count, false); },
         [](const at::Tensor& x) { return at::softmax(x, -1); }});
    cases.push_back(
        {"log_softmax", shape,
         [count](const Tensor& x, Tensor& y) { softmax(x.values<float>(), y.values<float>(), count, true); },
         [](const at::Tensor& x) { return at::log_softmax(x, -1); }});
  }
  cases.push_back({"prelu",
                   {1, 32, 64, 160},
                   [](const Tensor& x, Tensor& y) {
                     std::ranges::transform(x.values<float>(), y.values<float>().begin(),
                                            [](float value) { return Sloped::of(value, 0.1F); });
                   },
                   [](const at::Tensor& x) { return at::leaky_relu(x, 0.1); }});
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{4, 65, 128}, {197, 192}, {64, 768}}) {
    const int64_t count = shape.back();
    const at::Tensor weight = at::randn({count});
    const at::Tensor bias = at::randn({count});
    cases.push_back({"layer_norm", shape,
                     [=](const Tensor& x, Tensor& y) {
                       const Tensor w = from_torch(weight);
                       const Tensor b = from_torch(bias);
                       layer_norm(
                           {count, std::as_const(w).values<float>(), std::as_const(b).values<float>(), 1e-6},
                           x.values<float>(), y.values<float>());
                     },
                     [=](const at::Tensor& x) { return at::layer_norm(x, {count}, weight, bias, 1e-6); }});
  }
  cases.push_back({"group_norm",
                   {1, 64, 28, 28},
                   [](const Tensor& x, Tensor& y) {
                     group_norm({64, 28 * 28, 8, {}, {}, 1e-5}, x.values<float>(), y.values<float>());
                   },
                   [](const at::Tensor& x) { return at::group_norm(x, 8); }});
  return cases;
}

Case function_case(std::string name, ElementFunction::Kind kind,
                   std::function<at::Tensor(const at::Tensor&)> theirs) {
  return {
      std::move(name),
      {197, 768},
      [kind](const Tensor& x, Tensor& y) { apply_function({kind}, x.values<float>(), y.values<float>()); },
      std::move(theirs)};
}

void run(int rounds) {
  using Kind = ElementFunction::Kind;
  const at::AutoGradMode gradients(false);
  set_thread_count(1);
  at::set_num_threads(1);
  use_block_cache_for_tensors();
  for (const Case& of : row_cases()) compare(of, rounds);
  for (const Case& of :
       {function_case("gelu", Kind::kGelu, [](const at::Tensor& x) { return at::gelu(x); }),
        function_case("gelu, tanh", Kind::kGeluTanh, [](const at::Tensor& x) { return at::gelu(x, "tanh"); }),
        function_case("silu", Kind::kSilu, [](const at::Tensor& x) { return at::silu(x); }),
        function_case("sigmoid", Kind::kSigmoid, [](const at::Tensor& x) { return at::sigmoid(x); }),
        function_case("tanh", Kind::kTanh, [](const at::Tensor& x) { return at::tanh(x); }),
        function_case("exp", Kind::kExp, [](const at::Tensor& x) { return at::exp(x); }),
        function_case("sin", Kind::kSin, [](const at::Tensor& x) { return at::sin(x); }),
        function_case("cos", Kind::kCos, [](const at::Tensor& x) { return at::cos(x); }),
        function_case("tan", Kind::kTan, [](const at::Tensor& x) { return at::tan(x); }),
        function_case("asin", Kind::kAsin, [](const at::Tensor& x) { return at::asin(x); }),
        function_case("acos", Kind::kAcos, [](const at::Tensor& x) { return at::acos(x); }),
        function_case("atan", Kind::kAtan, [](const at::Tensor& x) { return at::atan(x); }),
        function_case("sinh", Kind::kSinh, [](const at::Tensor& x) { return at::sinh(x); }),
        function_case("cosh", Kind::kCosh, [](const at::Tensor& x) { return at::cosh(x); }),
        function_case("asinh", Kind::kAsinh, [](const at::Tensor& x) { return at::asinh(x); }),
        function_case("acosh", Kind::kAcosh, [](const at::Tensor& x) { return at::acosh(x); }),
        function_case("atanh", Kind::kAtanh, [](const at::Tensor& x) { return at::atanh(x); })}) {
    compare(of, rounds);
  }
}

}  // namespace
}  // namespace detent

int main(int argc, char** argv) {
  try {
    detent::run(argc > 1 && argv[1][0] != '-' ? std::atoi(argv[1]) : 15);
    return 0;
  } catch (const detent::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
