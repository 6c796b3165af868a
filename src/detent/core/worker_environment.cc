#include "detent/core/process_group.h"

#include <charconv>
#include <cstdint>
#include <string_view>

#include "detent/core/error.h"

namespace detent {
namespace {

using Getter = std::function<const char*(const char*)>;

int number_of_variable(const Getter& get, const char* variable, int low, int high) {
  const char* text = get(variable);
  if (text == nullptr)
    fail("environment variable {} is missing, which the launcher of workers sets", variable);
  const std::string_view digits = text;
  int number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool whole = error == std::errc() && end == digits.data() + digits.size();
  if (!whole || number < low || number > high) {
    fail("environment variable {}: got \"{}\", expected a number from {} to {}", variable, text, low, high);
  }
  return number;
}

WorkerEnvironment ranks_in(const Getter& get, const char* rank, const char* size) {
  constexpr int kMostWorkers = 1 << 16;
  WorkerEnvironment workers;
  workers.size = number_of_variable(get, size, 1, kMostWorkers);
  workers.rank = number_of_variable(get, rank, 0, workers.size - 1);
  return workers;
}

std::string secret_in(const Getter& get) {
  const char* secret = get("DETENT_WORKER_SECRET");
  return secret == nullptr ? "" : secret;
}

std::string job_in(const Getter& get) {
  const char* job = get("PMIX_NAMESPACE");
  if (job == nullptr) job = get("OMPI_MCA_ess_base_jobid");
  return job == nullptr ? "" : job;
}

/// A port for this job, so that two jobs on one machine seldom meet (FNV-1a of its name, into 20000..39999).
int port_of_job(std::string_view job) {
  if (job.empty()) return 29500;
  uint32_t hash = 2166136261U;
  for (const char c : job) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return 20000 + static_cast<int>(hash % 20000);
}

}  // namespace

std::optional<WorkerEnvironment> worker_environment(const Getter& get) {
  constexpr int kLastPort = 65535;
  WorkerEnvironment workers;
  if (get("RANK") != nullptr || get("WORLD_SIZE") != nullptr) {
    workers = ranks_in(get, "RANK", "WORLD_SIZE");
    if (workers.size == 1) return std::nullopt;
    const char* address = get("MASTER_ADDR");
    if (address == nullptr)
      fail("environment variable MASTER_ADDR is missing: the address of the first worker");
    workers.address = address;
    workers.port = number_of_variable(get, "MASTER_PORT", 1, kLastPort);
    workers.secret = secret_in(get);
    const char* agent_store = get("TORCHELASTIC_USE_AGENT_STORE");
    if (agent_store != nullptr && std::string_view(agent_store) == "True") {
      const char* restarts = get("TORCHELASTIC_RESTART_COUNT");
      workers.launcher_restarts = restarts == nullptr ? "" : restarts;
    }
    return workers;
  }
  if (get("OMPI_COMM_WORLD_SIZE") == nullptr) return std::nullopt;
  workers = ranks_in(get, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
  if (workers.size == 1) return std::nullopt;
  const char* address = get("MASTER_ADDR");
  const bool on_one_machine =
      get("OMPI_COMM_WORLD_LOCAL_SIZE") == nullptr ||
      number_of_variable(get, "OMPI_COMM_WORLD_LOCAL_SIZE", 1, workers.size) == workers.size;
  if (address == nullptr && !on_one_machine) {
    fail("environment variable MASTER_ADDR is missing: {} workers on several machines need the first one's",
         workers.size);
  }
  workers.address = address != nullptr ? address : "127.0.0.1";
  workers.job = job_in(get);
  workers.port = get("MASTER_PORT") != nullptr ? number_of_variable(get, "MASTER_PORT", 1, kLastPort)
                                               : port_of_job(workers.job);
  workers.secret = secret_in(get);
  return workers;
}

}  // namespace detent
