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
          "test: folder for logits, labels, predictions and the results of chosen nodes, each an .npy file; "
          "index.json says what is what");
    visit("dump_nodes", self.nodes,
          "test: regular expressions for the names of those nodes, '.*' for all of them");
    visit("dump_samples", self.samples, "test: as many of the first samples", Between{1, 1e9});
    visit("dump_as", self.as,
          "test: results of nodes as real values, or, where a node has them, as integers with scale and zero "
          "point in index.json");
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
    visit("model", self.model, "network: an ONNX model or graph (a file), or one of `detent list models`");
    visit("dataset", self.dataset, "data set: see `detent list datasets`");
    visit("task", self.task, "what is learned; classification (or cls)");
    visit("load", self.load, "file to load before the command runs");
    visit(
        "load_type", self.load_type,
        "what that file is: a state_dict of PyTorch (pt), of Lightning (pl) or as safetensors, a graph (mz), "
        "an ONNX model, the folder of a language model (hf); NA: what its content says");
    visit("shape", self.shape,
          "shapes of inputs whose sizes the network leaves open, NAME=1,3,224,224, of several with ; between "
          "them: fixed, but for the batch; NA: open sizes stay open, and samples have their own");
    visit("quantize", self.quantize,
          "train: quantizers whose scales are trained with the network, of all layers with weights: see "
          "`detent "
          "list quantizers`; NA: as the loaded network has them");
    visit("fold_batch_norm", self.fold_batch_norm,
          "train: with quantize, whether layers round the weights that they have with the batch norm after "
          "them "
          "folded in; batch: by the statistics of the batch, corrected: by the running ones");
    visit("teacher", self.teacher,
          "train: network whose outputs are learned from as well as the labels (distillation): a graph, an "
          "ONNX "
          "model, or parameters of the same model");
    visit("project_dir", self.project_dir,
          "folder that holds the projects; mase_output for the program under its old name, ch");
    visit("project", self.project, "folder of this run; NA: <model>_<task>_<dataset>_<date>");
    visit("data_dir", self.data_dir, "folder of data files; NA: $DETENT_DATA, then ~/.cache/detent");
    visit("calibration", self.calibration,
          "instead of a data set: a folder of images, flat or with a folder a class, or a file of inputs "
          "(.npy, "
          ".npz, .safetensors)");
    visit("labels", self.labels,
          "images: file of their labels, .tsv or .csv with columns file and class (a number), instead of "
          "folders");
    visit("output", self.output,
          "file for the quantized network as an ONNX model (-o model-int8.onnx), with QuantizeLinear and "
          "DequantizeLinear; one that exists is replaced with overwrite only");
    visit(
        "cache_format", self.cache_format,
        "of language models: keys and values that are kept, each token's part of a head with a scale of its "
        "own: int8, int4, fp8_e4m3fn; the products that read them compute in float");
    visit("validation_split", self.validation_split,
          "what the best epoch is chosen on: the data set's own validation samples, or, where it has none, a "
          "tenth of its training samples, which is held out; or the test samples");
    visit(
        "image_size", self.image_size,
        "height and width of the samples of image_folder; NA: what the network takes, the images' own where "
        "it leaves that open, or 224",
        Between{1, 8192});
    visit("classes", self.classes,
          "image_folder: file with the names of all classes, a line each in the order of the network's "
          "outputs; NA: classes.txt in the folder, else the folders of train");
    visit("skip_broken", self.skip_broken,
          "images: leave those out that cannot be read, with a warning, instead of stopping at the first");
    visit("seed", self.seed, "seed of every random number", Between{0, 9e18});
    visit("accelerator", self.accelerator, "where to compute");
    visit("engine", self.engine,
          "test: simulation or fast, the engine, in integers where the network is quantized for them, with "
          "fake quantization where it is not; reference, slow and plain, with the same results; integers: "
          "fast, and of a network quantized for integers only");
    visit(
        "reproducible", self.reproducible,
        "float results that are the same on every processor and for any number of threads: they are with or "
        "without it");
    visit("num_threads", self.num_threads,
          "threads, of which no more work than there are processors; NA: one a processor", Between{1, 4096});
    visit("log_level", self.log_level, "debug, info, warning, error or critical");
    visit("worker_timeout", self.worker_timeout,
          "seconds to wait for another worker, where a launcher started several", Between{1, 1e6});
    visit("num_workers", self.num_workers, "threads that load data ahead of the network; 0: none",
          Between{0, 256});
    visit("checkpoint_every", self.checkpoint_every,
          "train: save every so many steps as well as after each epoch; transform: save the progress of "
          "calibration every so many micro-batches; 0: never",
          Between{0, 1e15});
    visit("resume", self.resume, "train, search, compare: go on with what stopped in this project");
    visit("overwrite", self.overwrite,
          "replace files that exist (output, report); never one that is read. train: another training that "
          "this "
          "project holds; not with resume; "
          "quantize, transform: replace the network that other settings left there; search, compare: begin "
          "anew; test: "
          "replace another dump");
    visit("packed_weights", self.packed_weights,
          "store quantized weights as packed integers with their scales: a smaller file, from which training "
          "resumes "
          "with rounded weights; NA: quantize does, transform does not");
    visit("report_to", self.report_to, "train: where to report metrics besides metrics.jsonl");
    visit("json", self.json, "print the results as JSON instead of text (docs/results.md)");
    visit("report", self.report,
          "write a page (NAME.html) with the network as a graph, histograms, errors and sizes by layer");
    DumpOptions::fields(self.dump, visit);
    ImageTransforms::fields(self.transforms, visit);
    TrainingOptions::fields(self.training, visit);
  }
};

}  // namespace detent
