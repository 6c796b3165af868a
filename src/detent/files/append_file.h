#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace detent {

/// A file that grows by whole records, each written at once; one that does not fit on the disk leaves
/// nothing. Every failure throws Error naming the path and the reason.
class AppendFile {
 public:
  /// Keeps the first `keep` bytes of an existing file, if it has as many. A new one appears with the first
  /// record, with missing parent directories. Symbolic links: see output_file (unfinished_file.h).
  AppendFile(std::filesystem::path path, uint64_t keep);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  void append(std::string_view record);
  uint64_t size() const { return size_; }
  /// The record is on the disk on return.
  void flush();

 private:
  void open_file();

  std::filesystem::path path_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
};

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
  /// Continues after the first `keep` bytes of an existing file, which must be whole records; 0 starts anew.
  /// `wall_time`: seconds since 1970.
  EventFile(std::filesystem::path path, uint64_t keep, double wall_time);

  void write(double wall_time, int64_t step, std::span<const ScalarEvent> scalars);
  uint64_t size() const { return file_.size(); }
  void flush() { file_.flush(); }

 private:
  AppendFile file_;
};

}  // namespace detent
