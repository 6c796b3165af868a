#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "detent/cli/file_kind.h"
#include "detent/core/fields.h"
#include "detent/datasets/image_transforms.h"
#include "detent/datasets/training_splits.h"
#include "detent/graph/folded_norm.h"
#include "detent/training/options.h"

namespace detent {

enum class DumpAs { kValues, kIntegers };
constexpr std::array<const char*, 2> enum_names(DumpAs) { return {"values", "integers"}; }

/// Intermediate values that `detent test` writes.
struct DumpOptions {
  std::optional<std::string> folder;
  std::vector<std::string> nodes;
  int64_t samples = 16;
  DumpAs as = DumpAs::kValues;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("dump", self.folder,
          "test: folder for logits, labels, predictions and results of nodes as .npy files, listed in "
          "index.json");
    visit("dump_nodes", self.nodes, "test: regular expressions for the names of those nodes");
    visit("dump_samples", self.samples, "test: number of first samples to dump", Between{1, 1e9});
    visit("dump_as", self.as,
          "test: results as real values, or as integers with scale and zero point in index.json");
  }
};

enum class Accelerator { kAuto, kCpu };
constexpr std::array<const char*, 2> enum_names(Accelerator) { return {"auto", "cpu"}; }

enum class ReportTo { kNone, kTensorboard };
constexpr std::array<const char*, 2> enum_names(ReportTo) { return {"none", "tensorboard"}; }

/// Executor of `test` and `run`: the simulation, or integer execution of a network that is quantized for it,
/// by the plain reference or the fast engine. "integers" is what the fast one was first called.
enum class Engine { kSimulation, kReference, kFast, kIntegers };
constexpr std::array<const char*, 4> enum_names(Engine) {
  return {"simulation", "reference", "fast", "integers"};
}

/// The options that train, test and transform share. Each is a flag (`--batch-size`) and a key of the
/// configuration file (`batch_size`); a flag wins over the file, the file over the default.
struct RunOptions {
  std::optional<std::string> model;
  std::optional<std::string> dataset;
  std::string task = "classification";
  std::optional<std::string> load;
  std::optional<LoadType> load_type;
  std::optional<std::string> shape;
  std::optional<std::string> quantize;
  NormFolding fold_batch_norm = NormFolding::kNo;
  std::optional<std::string> teacher;
  std::string project_dir = "detent_output";
  std::optional<std::string> project;
  std::optional<std::string> data_dir;
  std::optional<std::string> calibration;
  std::optional<std::string> labels;
  std::optional<std::string> output;
  std::optional<std::string> cache_format;
  ValidationSplit validation_split = ValidationSplit::kHeldOut;
  std::optional<int64_t> image_size;
  std::optional<std::string> classes;
  bool skip_broken = false;
  int64_t seed = 0;
  Accelerator accelerator = Accelerator::kAuto;
  Engine engine = Engine::kSimulation;
  bool reproducible = false;
  std::optional<int64_t> num_threads;
  std::string log_level = "info";
  int64_t worker_timeout = 600;
  int64_t num_workers = 0;
  int64_t checkpoint_every = 0;
  bool resume = false;
  bool overwrite = false;
  std::optional<bool> packed_weights;
  ReportTo report_to = ReportTo::kNone;
  bool json = false;
  std::optional<std::string> report;
  DumpOptions dump;
  ImageTransforms transforms;
  TrainingOptions training;

  template <class Self, class Visitor>
  // NOLINTNEXTLINE(readability-function-size): a list
  static void fields(Self& self, Visitor& visit) {
    visit("model", self.model, "ONNX model, graph, or one of `detent list models`");
    visit("dataset", self.dataset, "one of `detent list datasets`");
    visit("task", self.task, "classification (or cls)");
    visit("load", self.load, "checkpoint, graph or model to load");
    visit("load_type", self.load_type,
          "type of that file: state_dict of PyTorch (pt) or Lightning (pl), safetensors, graph (mz), ONNX "
          "model, folder of a language model (hf), GGUF; NA: by its content");
    visit("shape", self.shape,
          "shapes of inputs with open sizes, NAME=1,3,224,224, separated by ;. All but the batch become "
          "fixed; NA: sizes stay open");
    visit("quantize", self.quantize,
          "train: quantizers of all layers with weights, one of `detent list quantizers`; NA: those of the "
          "loaded network");
    visit("fold_batch_norm", self.fold_batch_norm,
          "train, with quantize: round weights with the following batch norm folded in, by the statistics of "
          "the batch or by the running ones (corrected)");
    visit("teacher", self.teacher,
          "train: network for distillation: a graph, an ONNX model, or parameters of the same model");
    visit("project_dir", self.project_dir,
          "folder of all projects; mase_output for the program under the name ch");
    visit("project", self.project, "folder of this run; NA: <model>_<task>_<dataset>_<date>");
    visit("data_dir", self.data_dir, "folder of data files; NA: $DETENT_DATA, then ~/.cache/detent");
    visit("calibration", self.calibration,
          "instead of a data set: folder of images, flat or one folder per class, or file of inputs (.npy, "
          ".npz, .safetensors)");
    visit("labels", self.labels,
          "images: .tsv or .csv with columns file and class (a number), instead of folders");
    visit("output", self.output,
          "NAME.onnx: also write the quantized network as an ONNX model with QuantizeLinear and "
          "DequantizeLinear; other names: folder of the results, instead of one of a project");
    visit("cache_format", self.cache_format,
          "language models: format of cached keys and values, with a scale per token and head, such as int8; "
          "the products that read them compute in float");
    visit("validation_split", self.validation_split,
          "samples that choose the best epoch: the data set's validation samples, or a tenth of the training "
          "samples where it has none; or the test samples");
    visit("image_size", self.image_size,
          "image_folder: height and width of samples; NA: those of the network, of the images where it "
          "leaves them open, or 224",
          Between{1, 8192});
    visit("classes", self.classes,
          "image_folder: file with class names in the order of the outputs, one per line; NA: classes.txt, "
          "else the folders of train");
    visit("skip_broken", self.skip_broken, "images: skip unreadable ones with a warning instead of stopping");
    visit("seed", self.seed, "seed of all random numbers", Between{0, 9e18});
    visit("accelerator", self.accelerator, "processor");
    visit(
        "engine", self.engine,
        "test: simulation (fake quantization), fast (the engine, in integers where the network is quantized "
        "for them) or reference (slow, same results); integers: fast, and refuses other networks");
    visit("reproducible", self.reproducible,
          "no effect: float results are the same on every processor and for any number of threads");
    visit("num_threads", self.num_threads, "threads, at most one per processor; NA: one per processor",
          Between{1, 4096});
    visit("log_level", self.log_level, "debug, info, warning, error or critical");
    visit("worker_timeout", self.worker_timeout, "seconds to wait for other workers of a launcher",
          Between{1, 1e6});
    visit("num_workers", self.num_workers, "threads that prefetch data; 0: none", Between{0, 256});
    visit("checkpoint_every", self.checkpoint_every,
          "train: also save every N steps; transform: save calibration every N micro-batches; 0: never",
          Between{0, 1e15});
    visit("resume", self.resume, "train, search, compare: continue the run that stopped in this project");
    visit("overwrite", self.overwrite,
          "replace existing files, never one that is read. train (without resume), quantize, transform: "
          "replace the project's other result; search, compare: begin anew; test: replace another dump");
    visit("packed_weights", self.packed_weights,
          "store quantized weights as packed integers with scales; training then resumes from rounded "
          "weights; NA: quantize does, transform does not");
    visit("report_to", self.report_to, "train: report metrics besides metrics.jsonl");
    visit("json", self.json, "print the results as JSON (docs/results.md)");
    visit("report", self.report,
          "write a page (NAME.html) with the graph, histograms, errors and sizes by layer");
    DumpOptions::fields(self.dump, visit);
    ImageTransforms::fields(self.transforms, visit);
    TrainingOptions::fields(self.training, visit);
  }
};

}  // namespace detent
