#include "detent/workers/socket_group.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <string>
#include <thread>

#include "detent/core/error.h"
#include "detent/core/log.h"
#include "detent/workers/rendezvous_messages.h"

namespace detent {
namespace {

using Clock = Rendezvous::Clock;

/// Where this job's first worker listens.
WorkerEnvironment beside_launcher(WorkerEnvironment workers) {
  constexpr int kLastPort = 65535;
  if (!workers.launcher_restarts) return workers;
  workers.port += workers.port < kLastPort ? 1 : -1;
  workers.job = "restart " + *workers.launcher_restarts;
  return workers;
}

std::string gather_prefix(uint64_t gather) { return fmt::format("gather {} ", gather); }

/// How many gathers a worker has read.
std::string reader_key(int rank) { return fmt::format("read by {}", rank); }

/// Entries of one worker's bytes in one gather: their number, then pieces of at most kMostValue.
struct GatherKeys {
  std::string prefix;

  GatherKeys(uint64_t gather, int rank) : prefix(fmt::format("{}of {} ", gather_prefix(gather), rank)) {}
  std::string size() const { return prefix + "size"; }
  std::string piece(size_t index) const { return fmt::format("{}{}", prefix, index); }
};

void warn_of_public_address(const WorkerEnvironment& workers) {
  if (workers.rank != 0 || !workers.secret.empty() || !is_public_address(workers.address)) return;
  log_warning(
      "MASTER_ADDR {} is a public address: without a DETENT_WORKER_SECRET, the same for all workers, anybody "
      "can join them",
      workers.address);
}

}  // namespace

template <class Action>
void SocketGroup::attempt(const char* purpose, const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    has_failed_ = true;
    fail("worker {} of {} (first worker at {}:{}): {}: {}", workers_.rank, workers_.size, workers_.address,
         workers_.port, purpose, error.what());
  }
}

SocketGroup::SocketGroup(const WorkerEnvironment& workers, std::chrono::milliseconds timeout)
    : workers_(beside_launcher(workers)), timeout_(timeout) {
  warn_of_public_address(workers_);
  attempt("cannot join the others", [&] { table_ = std::make_shared<Rendezvous>(workers_, timeout); });
}

SocketGroup::~SocketGroup() {
  if (rank() != 0 || has_failed_) return;
  try {
    const Clock::time_point deadline = Clock::now() + timeout_;
    for (int other = 1; other < size(); ++other) wait_for_reader(other, deadline);
  } catch (const std::exception& error) {
    log_warning("worker 0 of {} no longer waits for the others to end: {}", size(), error.what());
  }
}

/// Until it has read the last gather, or has ended.
void SocketGroup::wait_for_reader(int other, Clock::time_point deadline) {
  while (!table_->find(departure_key(other))) {
    const auto count = table_->find(reader_key(other));
    if (gather_ == 0 || (count && read_as<uint64_t>(*count) == gather_)) return;
    if (Clock::now() >= deadline) fail("worker {} has not read the results in time", other);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

std::vector<std::vector<std::byte>> SocketGroup::all_gather(std::span<const std::byte> bytes) {
  std::vector<std::vector<std::byte>> result;
  attempt("cannot exchange results, did another worker stop?", [&] {
    const Clock::time_point deadline = Clock::now() + timeout_;
    offer(bytes);
    for (int other = 0; other < size(); ++other) {
      result.push_back(other == rank() ? std::vector(bytes.begin(), bytes.end()) : take(other, deadline));
    }
    // Who has offered to this gather has read all of the one before.
    if (gather_ > 0) table_->forget(gather_prefix(gather_ - 1));
    ++gather_;
    table_->set(reader_key(rank()), bytes_of(gather_));
  });
  return result;
}

void SocketGroup::all_reduce_sum(std::span<float> values) {
  if (values.empty()) return;
  const auto gathered = all_gather(std::as_bytes(values));
  std::ranges::fill(values, 0.0F);
  std::vector<float> theirs(values.size());
  for (const std::vector<std::byte>& bytes : gathered) {
    DETENT_CHECK(bytes.size() == values.size_bytes(), "{} bytes, expected {}", bytes.size(),
                 values.size_bytes());
    std::memcpy(theirs.data(), bytes.data(), bytes.size());
    for (size_t i = 0; i < values.size(); ++i) values[i] += theirs[i];
  }
}

void SocketGroup::offer(std::span<const std::byte> bytes) {
  const GatherKeys keys(gather_, rank());
  for (size_t i = 0; i * kMostValue < bytes.size(); ++i) {
    const size_t begin = i * kMostValue;
    table_->set(keys.piece(i), bytes.subspan(begin, std::min<size_t>(kMostValue, bytes.size() - begin)));
  }
  const uint64_t size = bytes.size();
  table_->set(keys.size(), bytes_of(size));
}

std::vector<std::byte> SocketGroup::take(int other, Clock::time_point deadline) {
  const GatherKeys keys(gather_, other);
  const std::vector<std::byte> size_bytes = table_->get(keys.size(), deadline, departure_key(other));
  DETENT_CHECK(size_bytes.size() == sizeof(uint64_t), "{} bytes", size_bytes.size());
  const auto size = read_as<uint64_t>(size_bytes);
  std::vector<std::byte> result;
  for (size_t i = 0; i * kMostValue < size; ++i) {
    const std::vector<std::byte> piece = table_->get(keys.piece(i), deadline);
    result.insert(result.end(), piece.begin(), piece.end());
  }
  DETENT_CHECK(result.size() == size, "{} bytes, expected {}", result.size(), size);
  return result;
}

}  // namespace detent
