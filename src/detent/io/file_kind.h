#pragma once

#include <filesystem>

namespace detent {

/// What a file of tensors holds.
enum class FileKind { kGraph, kSafetensors, kCheckpoint, kNpy, kNpz, kOnnx };

/// By the file's content, whatever its name is. A checkpoint is PyTorch's, in any of its three layouts. Reads
/// the first bytes and, of safetensors, the header. Throws Error on a file that is none of these, and as
/// summarize_safetensors does.
FileKind file_kind(const std::filesystem::path& path);

/// "a graph", "a checkpoint of PyTorch", ...
const char* file_kind_text(FileKind kind);

}  // namespace detent
