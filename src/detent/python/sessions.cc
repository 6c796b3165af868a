#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/core/processors.h"
#include "detent/core/thread_limit.h"
#include "detent/datasets/sample_files.h"
#include "detent/python/arrays.h"
#include "detent/python/bindings.h"
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
      : inputs_(network.sample_inputs()), outputs_(network.output_names()), threads_(threads) {
    program_ = without_lock([&] { return network.program(); });
    for (const SampleInput& input : inputs_) {
      if (input.name == kTokensName) tokens_ = input_keys_.size();
      input_keys_.push_back(nb::cast(input.name));
    }
    for (const std::string& name : outputs_) output_keys_.push_back(nb::cast(name));
  }

  nb::dict run(nb::handle given, nb::handle out) const {
    const std::vector<Tensor> inputs = tensors_of(given);
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
  std::vector<Tensor> tensors_of(nb::handle given) const {
    const bool is_dict = nb::isinstance<nb::dict>(given);
    if (!is_dict && inputs_.size() != 1 && !tokens_)
      throw nb::type_error(
          fmt::format("got {}, expected a dict of the inputs {}", type_text(given), fmt::join(names(), ", "))
              .c_str());
    nb::dict dict;
    if (is_dict) {
      dict = nb::borrow<nb::dict>(given);
    } else {
      dict[input_keys_[tokens_.value_or(0)]] = given;
    }
    std::vector<Tensor> tensors(inputs_.size());
    size_t found = 0;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (!dict.contains(input_keys_[i])) continue;
      tensors[i] = tensor_of(nb::object(dict[input_keys_[i]]), inputs_[i].dtype, "input " + inputs_[i].name);
      ++found;
    }
    if (found != inputs_.size()) add_beside_tokens(dict, tensors);
    if (dict.size() != found) refuse_unknown(dict);
    return tensors;
  }

  void add_beside_tokens(const nb::dict& dict, std::vector<Tensor>& tensors) const {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (dict.contains(input_keys_[i])) continue;
      auto given = tokens_ && dict.contains(input_keys_[*tokens_])
                       ? beside_tokens(inputs_[i].name, tensors[*tokens_])
                       : std::nullopt;
      if (!given) fail("input {} is missing: got {}", inputs_[i].name, keys_text(dict));
      tensors[i] = std::move(*given);
    }
  }

  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const SampleInput& input : inputs_) result.push_back(input.name);
    return result;
  }

  static std::string keys_text(const nb::dict& dict) {
    std::vector<std::string> keys;
    for (const auto& [key, value] : dict) keys.push_back(nb::cast<std::string>(nb::str(key)));
    return keys.empty() ? "no inputs" : fmt::format("{}", fmt::join(keys, ", "));
  }

  [[noreturn]] void refuse_unknown(const nb::dict& dict) const {
    const std::vector<std::string> known = names();
    for (const auto& [key, value] : dict) {
      const auto name = nb::cast<std::string>(nb::str(key));
      if (std::ranges::count(known, name) == 0) fail("{}", unknown_name_message("input", name, known));
    }
    fail("got {} inputs, expected {}", dict.size(), inputs_.size());
  }

  /// Not valid where the caller gave none for this output.
  nb::object given_output(nb::handle out, size_t i) const {
    if (out.is_none()) return {};
    const auto dict = nb::cast<nb::dict>(out);
    return dict.contains(output_keys_[i]) ? nb::object(dict[output_keys_[i]]) : nb::object();
  }

  std::vector<SampleInput> inputs_;
  std::vector<std::string> outputs_;
  std::vector<nb::object> input_keys_;
  std::optional<size_t> tokens_;  // the input with the tokens of a language model
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
        if (count < 1 || count > 4096) fail("threads: got {}, expected 1 to 4096", count);
        set_thread_count(usable_thread_count(count));
      },
      "count"_a);
}

}  // namespace detent::python
