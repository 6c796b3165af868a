#include "detent/passes/analysis/profile_progress.h"

#include "detent/core/error.h"
#include "detent/core/xxh64.h"
#include "detent/files/safetensors.h"

// A safetensors file: the state of each collector as a tensor of bytes, in order; metadata "run",
// "micro_batches" and "inputs".

namespace detent {
namespace {

std::string probe_name(size_t index) { return fmt::format("probe.{}", index); }

}  // namespace

ProfileProgress::ProfileProgress(std::filesystem::path path, std::string identity)
    : path_(std::move(path)), identity_(std::move(identity)) {}

void InputChecksum::add(std::span<const Tensor> inputs) {
  for (const Tensor& input : inputs) value_ = xxh64(input.bytes(), value_);
}

std::string InputChecksum::text() const { return fmt::format("{:016x}", value_); }

int64_t ProfileProgress::restore(std::span<Probe> probes,
                                 const std::function<InputChecksum(int64_t)>& checksum_of,
                                 const std::function<void(const std::string&)>& warn) const {
  if (!std::filesystem::exists(path_)) return 0;
  const SafetensorsFile file = read_safetensors(path_);
  const auto run = file.metadata.find("run");
  if (run == file.metadata.end() || run->second != identity_) {
    warn(fmt::format("{}: the progress of another run (other network, data or options): starting anew",
                     path_.string()));
    return 0;
  }
  const auto count = file.metadata.find("micro_batches");
  const bool is_number = count != file.metadata.end() && !count->second.empty() &&
                         count->second.size() <= 15 &&
                         count->second.find_first_not_of("0123456789") == std::string::npos;
  if (!is_number || file.tensors.size() != probes.size()) {
    fail("{}: not the progress of profiling: remove it to start anew", path_.string());
  }
  const int64_t done = std::stoll(count->second);
  const auto inputs = file.metadata.find("inputs");
  if (inputs == file.metadata.end() || inputs->second != checksum_of(done).text()) {
    warn(fmt::format("{}: the calibration samples have changed since: starting anew", path_.string()));
    return 0;
  }
  for (size_t i = 0; i < probes.size(); ++i) {
    const auto& [name, state] = file.tensors[i];
    if (name != probe_name(i)) fail("{}: got \"{}\", expected \"{}\"", path_.string(), name, probe_name(i));
    try {
      probes[i].collector.deserialize(state.bytes());
    } catch (const Error& error) {
      fail("{}: {}: {}; remove the file to start anew", path_.string(), name, error.what());
    }
  }
  return done;
}

void ProfileProgress::save(std::span<const Probe> probes, int64_t micro_batches,
                           const InputChecksum& inputs) const {
  std::vector<std::pair<std::string, Tensor>> states;
  for (size_t i = 0; i < probes.size(); ++i) {
    const std::vector<std::byte> state = probes[i].collector.serialize();
    Tensor bytes(DType::kUInt8, {static_cast<int64_t>(state.size())});
    std::ranges::copy(state, bytes.bytes().begin());
    states.emplace_back(probe_name(i), std::move(bytes));
  }
  write_safetensors(
      path_, states,
      {{"run", identity_}, {"micro_batches", fmt::format("{}", micro_batches)}, {"inputs", inputs.text()}});
}

void ProfileProgress::remove() const {
  std::error_code ignored;  // it may not be there
  std::filesystem::remove(path_, ignored);
}

}  // namespace detent
