#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "detent/files/append_file.h"

namespace detent {

/// One number of one step, for TensorBoard.
struct ScalarEvent {
  std::string tag;  // "train/loss"
  float value = 0;
};

/// An event file of TensorBoard: TFRecords (uint64 length, its masked CRC-32C, bytes, their masked CRC-32C,
/// little endian), each a protobuf message tensorflow.Event; the first names the version, "brain.Event:2".
/// The file's name must contain "tfevents" for TensorBoard to find it.
class EventFile {
 public:
  /// Goes on after the first `keep` bytes of a file that is there, which must be whole records; with 0 it
  /// begins anew. `wall_time`: seconds since 1970.
  EventFile(std::filesystem::path path, uint64_t keep, double wall_time);

  void write(double wall_time, int64_t step, std::span<const ScalarEvent> scalars);
  uint64_t size() const { return file_.size(); }
  void flush() { file_.flush(); }

 private:
  AppendFile file_;
};

}  // namespace detent
