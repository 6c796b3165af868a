#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "detent/core/error.h"
#include "detent/core/error_fields.h"
#include "detent/core/parallel.h"
#include "detent/core/process_resources.h"
#include "detent/python/arrays.h"
#include "detent/python/bindings.h"
#include "detent/python/inputs.h"
#include "detent/python/network.h"
#include "detent/python/work.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace detent::python {
namespace {

/// A network that is ready to run. From several threads.
class Session {
 public:
  Session(const Network& network, int threads)
      : inputs_(network), outputs_(network.output_names()), threads_(threads) {
    program_ = without_lock([&] { return network.program(); });
    for (const std::string& name : outputs_) output_keys_.push_back(nb::cast(name));
  }

  nb::dict run(nb::handle given, nb::handle out) const {
    check_outputs(out);
    const std::vector<Tensor> inputs = inputs_.tensors_of(given);
    const std::vector<Tensor> outputs = without_lock([&] {
      const LimitThreads limit(threads_);
      return program_->run(inputs);
    });
    nb::dict result;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const nb::object array = given_output(out, i);
      if (array.is_valid()) {
        copy_into(array, outputs[i], "out, " + outputs_[i]);
        result[output_keys_[i]] = array;
      } else {
        result[output_keys_[i]] = array_of(outputs[i]);
      }
    }
    return result;
  }

 private:
  void check_outputs(nb::handle out) const {
    if (out.is_none()) return;
    if (!nb::isinstance<nb::dict>(out))
      throw nb::type_error(
          fmt::format("out: got {}, expected a dict of arrays by output", type_text(out)).c_str());
    for (const auto& [key, array] : nb::borrow<nb::dict>(out)) {
      const auto name = nb::cast<std::string>(nb::str(key));
      if (std::ranges::count(outputs_, name) == 0) fail_unknown("out", "output", name, outputs_);
    }
  }

  /// Not valid where the caller gave none for this output.
  nb::object given_output(nb::handle out, size_t i) const {
    if (out.is_none()) return {};
    const auto dict = nb::cast<nb::dict>(out);
    return dict.contains(output_keys_[i]) ? nb::object(dict[output_keys_[i]]) : nb::object();
  }

  InputReader inputs_;
  std::vector<std::string> outputs_;
  std::vector<nb::object> output_keys_;
  int threads_;
  std::shared_ptr<const FastProgram> program_;
};

}  // namespace

void bind_sessions(nb::module_& module) {
  nb::class_<Session>(module, "GraphSession", "A network that is ready to run.")
      .def(nb::init<const Network&, int>(), "network"_a, "threads"_a)
      .def("run", &Session::run, "inputs"_a.none(), "out"_a.none(),
           nb::sig("def run(self, inputs: typing.Any, out: dict[str, typing.Any] | None) -> dict[str, "
                   "typing.Any]"));
  module.def("num_threads", [] { return thread_count(); });
  module.def(
      "fail_check", [] { DETENT_CHECK(false, "one is not {}", "two"); },
      "Fails as a mistake in Detent would, for tests of that.");
  module.def(
      "address_seen",
      [](nb::handle array) {
        const Tensor tensor = tensor_of(array, "array");
        return reinterpret_cast<uintptr_t>(tensor.bytes().data());
      },
      "array"_a, "Where the elements lie that Detent reads: the array's own, unless they were copied.",
      nb::sig("def address_seen(array: typing.Any) -> int"));
  module.def(
      "set_num_threads",
      [](int64_t count) {
        if (count < 1 || count > 4096)
          fail_value("threads", std::to_string(count), "1 to 4096", {.key = "threads"});
        set_thread_count(usable_thread_count(count));
      },
      "count"_a);
}

}  // namespace detent::python
