#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/core/value.h"
#include "detent/files/array_files.h"
#include "detent/graph/graph_parameters.h"

namespace detent {

/// Writes what `torch.save(state_dict, path)` would: a zip archive with a pickled OrderedDict, which
/// `torch.load` reads. Tensors that are the same memory stay so (one storage).
void write_state_dict(const std::filesystem::path& path, const StateDict& state);

/// Reads the state_dict of a file of `torch.save` (zip or the older layout, either byte order) or of PyTorch
/// Lightning: the dict under "state_dict", "model_state_dict" or "model", else the dict at the top, else the
/// only dict with tensors below it, those of optimizers aside; names as in the file. Tensors borrow from the
/// mapped file, and those that share memory there share it here; views that are not contiguous, and storages
/// that the older layout does not align, are copied. Nothing of the file is ever executed. Throws Error
/// naming the file and the key on a damaged file (entries of a zip have a CRC-32, the older layout has no
/// such thing), a value that is no dense tensor, an unsupported dtype, a pickled module (save its state_dict
/// instead), and when copies would together be larger than the file and than 64 KiB.
StateDict read_state_dict(const std::filesystem::path& path);

/// Summary of a checkpoint; no storage is touched.
struct CheckpointSummary {
  bool lightning = false;
  /// "layout", and for people: "keys" of the dictionary around the state_dict, "epoch", "global_step",
  /// "pytorch-lightning_version" where it has them.
  Table facts;
  /// All of the state_dict that `read_state_dict` finds, those that it refuses included.
  std::vector<TensorSummary> tensors;
};

/// Throws Error as `read_state_dict` does, but for damaged or unsupported tensors.
CheckpointSummary summarize_checkpoint(const std::filesystem::path& path);

struct OptimizerState {
  /// State of the i-th parameter: "step", "exp_avg", ..., each a scalar or of the parameter's shape.
  std::vector<StateDict> parameters;
  /// The one param_group without its "params": "lr", "betas", ...
  Table settings;
};

/// Contents of PyTorch Lightning's best.ckpt and last.ckpt.
struct LightningCheckpoint {
  int64_t epoch = 0;
  int64_t global_step = 0;
  std::string lightning_version = "2.0.9";  // whose layout this is
  /// Names without the prefix "model.", which the file has.
  StateDict state;
  std::optional<OptimizerState> optimizer;
};

void write_lightning_checkpoint(const std::filesystem::path& path, const LightningCheckpoint& checkpoint);

/// Strips "module." (nn.DataParallel), "_orig_mod." (torch.compile) and "model." (Lightning) as long as all
/// names begin with the same one.
StateDict without_wrapper_prefixes(StateDict state);

/// Strips everything up to the first "." from names that begin with "model."; throws Error when two then
/// coincide.
StateDict without_model_prefix(StateDict state);

}  // namespace detent
