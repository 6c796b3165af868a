#include "detent/datasets/datasets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <numeric>

#include <sys/resource.h>

#include "detent/core/error.h"
#include "detent/core/log.h"
#include "detent/core/sanitizers_for_test.h"
#include "detent/datasets/image_dataset.h"
#include "detent/datasets/image_for_test.h"
#include "detent/datasets/training_splits.h"

namespace detent {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

class ImageFolder : public testing::Test {
 protected:
  ~ImageFolder() override { fs::remove_all(root_); }

  void put(const std::string& name, const std::string& bytes) {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name, std::ios::binary) << bytes;
  }
  void put_grey(const std::string& name, uint8_t level, uint32_t width = 40, uint32_t height = 30) {
    put(name, png_bytes({.width = width, .height = height, .color_type = PNG_COLOR_TYPE_GRAY},
                        std::vector(height, std::vector<uint8_t>(width, level))));
  }
  std::unique_ptr<Dataset> make(Split split, int64_t size = 16) {
    return make_dataset("image_folder", split, {.data_dir = root_, .image_size = size});
  }
  void expect_error(Split split, const std::string& text) {
    EXPECT_THAT([&] { make(split); }, ThrowsMessage<Error>(HasSubstr(text)));
  }

  fs::path root_ = fs::temp_directory_path() / ("detent_images_" + std::to_string(getpid()));
};

TEST_F(ImageFolder, ReadsImagesOfAnySizeByClass) {
  put_grey("train/dog/b.png", 10, 40, 90);
  put("train/dog/a.JPG", jpeg_bytes(100, 20, JCS_GRAYSCALE, {200}));
  put_grey("train/cat/c.png", 30, 7, 5);
  put_grey("val/dog/d.png", 40);
  put("train/dog/.hidden", "");
  const auto train = make(Split::kTrain);
  EXPECT_EQ(train->sample_shape(), (Shape{3, 16, 16}));
  EXPECT_EQ(train->class_count(), 2);
  EXPECT_THAT(train->labels(), ElementsAre(0, 1, 1));
  const std::vector<int64_t> all = {0, 1, 2};
  const Batch batch = train->batch(all);
  const std::vector<uint8_t> levels = {30, 200, 10};
  const ChannelLevels green = normalised_levels(0.456F, 0.224F);
  for (size_t i = 0; i < levels.size(); ++i) {
    const auto sample = std::as_const(batch.inputs[0]).values<float>().subspan(i * 3 * 256, size_t{3} * 256);
    EXPECT_THAT(sample.subspan(256, 256), Each(green[levels[i]]));
  }
  for (const Split split : {Split::kValidation, Split::kTest, Split::kPrediction}) {
    const auto others = make(split);
    EXPECT_THAT(others->labels(), ElementsAre(1));
    EXPECT_EQ(others->source(), (root_ / "val").string());
  }
}

/// A checkerboard, of which scaling would leave no pixel as it is.
TEST_F(ImageFolder, ImagesOfTheSamplesSizeAreTakenAsTheyAre) {
  std::vector<std::vector<uint8_t>> rows(16, std::vector<uint8_t>(16));
  for (size_t y = 0; y < 16; ++y)
    for (size_t x = 0; x < 16; ++x) rows[y][x] = (x + y) % 2 == 0 ? 0 : 255;
  put("test/a/board.png", png_bytes({.width = 16, .height = 16, .color_type = PNG_COLOR_TYPE_GRAY}, rows));
  const auto reds = [&](const DatasetOptions& options, bool trains) {
    const auto data = make_dataset("image_folder", trains ? Split::kTest : Split::kPrediction, options);
    const Batch batch = data->batch(std::vector<int64_t>{0}, trains ? 1 : 0);
    const auto values = std::as_const(batch.inputs[0]).values<float>().subspan(0, 256);
    return std::vector<float>(values.begin(), values.end());
  };
  DatasetOptions options{.data_dir = root_, .image_size = 16};
  const ChannelLevels red = normalised_levels(0.485F, 0.229F);
  std::vector<float> expected;
  for (const auto& row : rows)
    for (const uint8_t level : row) expected.push_back(red[level]);
  EXPECT_EQ(reds(options, false), expected);
  EXPECT_EQ(reds(options, true), expected);
  options.transforms.resize = 18;
  EXPECT_NE(reds(options, false), expected) << "that was asked for";
  options.transforms = {.random_crop = true};
  EXPECT_NE(reds(options, true), expected) << "there is one place only to cut it from";
}

TEST_F(ImageFolder, ImagesMayHaveASizeOfTheirOwn) {
  put_grey("a.png", 10, 40, 30);
  put_grey("b.png", 20, 40, 30);
  DatasetOptions options{.data_dir = root_, .own_image_size = true};
  EXPECT_EQ(make_dataset("image_folder", Split::kTest, options)->sample_shape(), (Shape{3, 30, 40}));
  options.transforms.resize = 15;
  EXPECT_EQ(make_dataset("image_folder", Split::kTest, options)->sample_shape(), (Shape{3, 15, 20}));
  put_grey("c.png", 20, 40, 31);
  const auto several = make_dataset("image_folder", Split::kTest, options);
  EXPECT_EQ(several->size_count(), 2U);
  EXPECT_EQ(several->shapes(several->size_of_sample(2)), (std::vector<Shape>{{3, 15, 19}}));
  const std::vector<int64_t> order = {0, 1, 2};
  EXPECT_EQ(several->same_size_end(order, 0, 3), 2);
  EXPECT_EQ(several->batch(std::span(order).subspan(2)).inputs[0].shape(), (Shape{1, 3, 15, 19}));
  EXPECT_THAT([&] { several->batch(order); }, ThrowsMessage<Error>(HasSubstr("samples of one batch")));
  options.one_image_size = true;
  EXPECT_THAT([&] { make_dataset("image_folder", Split::kTest, options); },
              ThrowsMessage<Error>(AllOf(HasSubstr("a.png has 30x40 pixels and"), HasSubstr("c.png 31x40"),
                                         HasSubstr("give --image-size N"))));
}

TEST_F(ImageFolder, LabelledImagesOfOneFolderAreEitherCalibratedOnOrTested) {
  std::string table;
  for (int i = 0; i < 40; ++i) {
    put_grey(fmt::format("{:02}.png", i), static_cast<uint8_t>(i), 8, 8);
    table += fmt::format("{:02}.png,{}\n", i, i % 4);
  }
  put("../labels.csv", table);
  const DatasetOptions options{.data_dir = root_, .image_size = 8, .labels = root_ / "../labels.csv"};
  const auto levels = [](const Dataset& data) {
    std::vector<int64_t> all(static_cast<size_t>(data.size()));
    std::iota(all.begin(), all.end(), int64_t{0});
    const Batch batch = data.batch(all);
    std::vector<float> first;
    for (int64_t i = 0; i < data.size(); ++i)
      first.push_back(std::as_const(batch.inputs[0]).values<float>()[static_cast<size_t>(i * 3 * 64)]);
    return first;
  };
  const auto splits = make_calibration_splits("image_folder", 12, options);
  EXPECT_TRUE(splits.is_divided);
  EXPECT_EQ(splits.calibration->size(), 12);
  EXPECT_EQ(splits.test->size(), 28);
  for (int64_t label = 0; label < 4; ++label)
    EXPECT_EQ(std::ranges::count(splits.calibration->labels(), label), 3);
  std::vector<float> all = levels(*splits.calibration);
  const std::vector<float> tested = levels(*splits.test);
  all.insert(all.end(), tested.begin(), tested.end());
  std::ranges::sort(all);
  EXPECT_EQ(std::ranges::adjacent_find(all), all.end()) << "each is in one of both";
  EXPECT_EQ(make_calibration_splits("image_folder", 1000, options).calibration->size(), 20);
  const auto unlabelled = make_calibration_splits("image_folder", 12, {.data_dir = root_, .image_size = 8});
  EXPECT_FALSE(unlabelled.is_divided);
  EXPECT_EQ(unlabelled.calibration->size(), 40);
  fs::remove(root_ / "../labels.csv");
}

/// Left and right thirds are black: the middle of what is twice as wide as high is not.
TEST_F(ImageFolder, KeepsTheMiddle) {
  std::vector<uint8_t> row(210, 0);
  std::fill(row.begin() + 50, row.begin() + 160, 255);
  put("test/a/wide.png",
      png_bytes({.width = 210, .height = 64, .color_type = PNG_COLOR_TYPE_GRAY}, std::vector(64, row)));
  const std::vector<int64_t> first = {0};
  const Batch batch = make(Split::kTest, 56)->batch(first);
  EXPECT_THAT(std::as_const(batch.inputs[0]).values<float>().first(size_t{56} * 56),
              Each(normalised_levels(0.485F, 0.229F)[255]));
}

/// The whole of what is scaled would have 256 x 25,600,000 pixels.
TEST_F(ImageFolder, ScalesOnlyWhatIsCut) {
  put_grey("train/a/tall.png", 9, 1, 100000);
  put_grey("train/a/wide.png", 7, 100000, 1);
  const auto train = make(Split::kTrain, 224);
  const std::vector<int64_t> both = {0, 1};
  rusage before{};
  getrusage(RUSAGE_SELF, &before);
  for (const int64_t epoch : {0, 1}) {
    const Batch batch = train->batch(both, epoch);
    EXPECT_EQ(std::as_const(batch.inputs[0]).values<float>()[0], normalised_levels(0.485F, 0.229F)[9]);
    EXPECT_EQ(std::as_const(batch.inputs[0]).values<float>().back(), normalised_levels(0.406F, 0.225F)[7]);
  }
  rusage after{};
  getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 64 * 1024);  // KiB
}

TEST_F(ImageFolder, NamesTheImageThatMemoryIsTooSmallFor) {
  DETENT_SKIP_UNDER_SANITIZERS();
  put_grey("train/a/large.png", 1, 8000, 8000);  // 192 MB of pixels
  const auto train = make(Split::kTrain);
  const std::vector<int64_t> first = {0};
  rlimit before{};
  getrlimit(RLIMIT_AS, &before);
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const uint64_t used = pages * static_cast<uint64_t>(getpagesize());
  const rlimit limit = {used + (uint64_t{100} << 20), before.rlim_max};
  setrlimit(RLIMIT_AS, &limit);
  EXPECT_THAT([&] { train->batch(first); },
              ThrowsMessage<Error>(
                  AllOf(HasSubstr((root_ / "train/a/large.png").string()), HasSubstr("not enough memory"))));
  setrlimit(RLIMIT_AS, &before);
}

TEST_F(ImageFolder, TransformsAsAsked) {
  std::vector<uint8_t> row(8, 0);
  std::fill(row.begin() + 4, row.end(), 255);  // the right half is white
  put("train/a/half.png",
      png_bytes({.width = 8, .height = 8, .color_type = PNG_COLOR_TYPE_GRAY}, std::vector(8, row)));
  const ImageTransforms transforms = {
      .resize = 8, .center_crop = 4, .horizontal_flip = 1, .image_mean = {{0.0}}, .image_std = {{1.0}}};
  const auto train =
      make_dataset("image_folder", Split::kTrain, {.data_dir = root_, .transforms = transforms});
  EXPECT_EQ(train->sample_shape(), (Shape{3, 4, 4}));
  const std::vector<int64_t> first = {0};
  const Batch evaluated = train->batch(first);
  EXPECT_THAT(std::as_const(evaluated.inputs[0]).values<float>().first(4), ElementsAre(0, 0, 1, 1));
  const Batch mirrored = train->batch(first, 1);
  EXPECT_THAT(std::as_const(mirrored.inputs[0]).values<float>().first(4), ElementsAre(1, 1, 0, 0));
}

TEST_F(ImageFolder, ClassesMayBeListed) {
  put("classes.txt", "zebra\r\nant\nbee\n");
  put_grey("test/bee/a.png", 1);
  put_grey("test/zebra/a.png", 1);
  const auto test = make(Split::kTest);
  EXPECT_EQ(test->class_count(), 3);
  EXPECT_THAT(test->labels(), ElementsAre(2, 0));
  put_grey("test/yak/a.png", 1);
  expect_error(Split::kTest, "class \"yak\" is not among the 3 classes of classes.txt");
  put("classes.txt", "ant\nbee\nant\n");
  expect_error(Split::kTest, "classes.txt: names a class twice");
}

TEST_F(ImageFolder, ClassesMayBeListedElsewhereAndBeMissingOrEmpty) {
  put("names/list.txt", "ant\nbee\ncow\ndog\n");
  put_grey("data/train/dog/a.png", 1);
  put_grey("data/test/bee/a.png", 1);
  fs::create_directories(root_ / "data/test/cow");
  const auto make_listed = [&](Split split) {
    return make_dataset("image_folder", split,
                        {.data_dir = root_ / "data", .image_size = 8, .classes = root_ / "names/list.txt"});
  };
  EXPECT_EQ(make_listed(Split::kTrain)->class_count(), 4);
  EXPECT_THAT(make_listed(Split::kTrain)->labels(), ElementsAre(3));
  EXPECT_THAT(make_listed(Split::kTest)->labels(), ElementsAre(1)) << "the folder cow is empty";
  put_grey("data/test/yak/a.png", 1);
  EXPECT_THAT([&] { make_listed(Split::kTest); },
              ThrowsMessage<Error>(
                  HasSubstr("\"yak\" is not among the 4 classes of " + (root_ / "names/list.txt").string())));
}

TEST_F(ImageFolder, ImagesWithoutLabels) {
  put_grey("b.png", 2);
  put_grey("a.png", 1);
  put("readme.txt", "");
  for (const Split split : {Split::kTrain, Split::kValidation, Split::kTest}) {
    const auto flat = make(split);
    EXPECT_FALSE(flat->has_labels());
    EXPECT_EQ(flat->size(), 2);
    EXPECT_EQ(flat->class_count(), 0) << "nothing says";
    const std::vector<int64_t> both = {0, 1};
    const Batch batch = flat->batch(both);
    EXPECT_THAT(std::as_const(batch.labels).values<int64_t>(), Each(-1));
    EXPECT_EQ(batch.inputs[0].shape(), (Shape{2, 3, 16, 16}));
  }
  put("classes.txt", "cat\ndog\n");
  EXPECT_EQ(make(Split::kTrain)->class_count(), 2);
}

TEST_F(ImageFolder, OnlyTheTrainingImagesMayHaveNoLabels) {
  put_grey("train/a.png", 1);
  EXPECT_FALSE(make(Split::kTrain)->has_labels());
  EXPECT_FALSE(make(Split::kTest)->has_labels()) << "there are no others";
  put_grey("test/dog/a.png", 1);
  put_grey("test/cat/a.png", 1);
  EXPECT_FALSE(make(Split::kTrain)->has_labels());
  const auto test = make(Split::kTest);
  EXPECT_TRUE(test->has_labels());
  EXPECT_THAT(test->labels(), ElementsAre(0, 1));
}

TEST_F(ImageFolder, LabelsMayComeFromATable) {
  put_grey("a.png", 10);
  put_grey("b.png", 20);
  const auto labels_of = [&](const std::string& table) {
    put("../labels.tsv", table);
    const auto data = make_dataset("image_folder", Split::kTest,
                                   {.data_dir = root_, .image_size = 16, .labels = root_ / "../labels.tsv"});
    EXPECT_EQ(data->class_count(), *std::ranges::max_element(data->labels()) + 1);
    return std::vector<int64_t>(data->labels().begin(), data->labels().end());
  };
  EXPECT_THAT(labels_of("index\tname\tfile\n7\tdog\tb.png\n2\tcat\ta.png\n"), ElementsAre(7, 2));
  EXPECT_THAT(labels_of("file,class\r\n\"a.png\", 3\r\nmissing.png,9\r\n"), ElementsAre(3));
  EXPECT_THAT(labels_of("a.png,1\nb.png,0\n"), ElementsAre(1, 0));
  EXPECT_THAT([&] { labels_of("file,class\na.png,dog\n"); },
              ThrowsMessage<Error>(HasSubstr("labels.tsv:2: got the class \"dog\"")));
  EXPECT_THAT([&] { labels_of("file,class\nc.png,1\n"); }, ThrowsMessage<Error>(HasSubstr("names no file")));
  for (const char* table : {"a,b,c\n", "filename,label\na.png,1\n", "file;class\na.png;1\n"})
    EXPECT_THAT([&] { labels_of(table); }, ThrowsMessage<Error>(HasSubstr("labels.tsv:1: got \""))) << table;
  for (const char* again : {"a.png", "./a.png"}) {
    EXPECT_THAT(
        [&] { labels_of(fmt::format("a.png,1\nb.png,1\n{},0\n", again)); },
        ThrowsMessage<Error>(AllOf(HasSubstr("labels.tsv:3: names "), HasSubstr("again, after line 1"))));
  }
  EXPECT_THAT(labels_of("\xef\xbb\xbf"
                        "file,class\na.png,3\n"),
              ElementsAre(3))
      << "as Excel writes it";
  EXPECT_THAT(
      [&] {
        labels_of(
            std::string("\xff\xfe"
                        "f\0i\0",
                        6));
      },
      ThrowsMessage<Error>(HasSubstr("UTF-16")));
  fs::remove(root_ / "../labels.tsv");
}

/// Log lines of `action`.
std::string logged(const std::function<void()>& action) {
  testing::internal::CaptureStderr();
  set_up_logging("info");
  action();
  return testing::internal::GetCapturedStderr();
}

TEST_F(ImageFolder, ImagesThatATableLeavesOutAreCounted) {
  for (const char* name : {"a.png", "b.png", "images/c.png", "images/d.PNG"}) put_grey(name, 10);
  put("labels.csv", "file,class\na.png,1\nc.png,0\n");
  const auto make_labelled = [&] {
    const auto data =
        make_dataset("image_folder", Split::kTest, {.data_dir = root_, .labels = root_ / "labels.csv"});
    EXPECT_THAT(data->labels(), ElementsAre(1, 0));
  };
  const std::string text = logged(make_labelled);
  EXPECT_THAT(text, HasSubstr("labels.csv: names no class of 2 images, which are left out"));
  EXPECT_THAT(text, HasSubstr("/b.png"));
  put("labels.csv", fmt::format("file,class\n./a.png,1\n{},0\n", (root_ / "images/c.png").string()));
  testing::internal::CaptureStderr();
  make_dataset("image_folder", Split::kTest, {.data_dir = root_ / "", .labels = root_ / "./labels.csv"});
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("names no class of 2 images"));
}

TEST_F(ImageFolder, BrokenImagesAreNamedAndMayBeLeftOut) {
  const std::string jpeg = jpeg_bytes(20, 20, JCS_GRAYSCALE, {200});
  put("a.jpg", jpeg);
  put("b.jpg", jpeg.substr(0, jpeg.size() / 2));
  put("c.png", "");
  put("d.jpg", jpeg);
  const std::vector<int64_t> second = {1};
  EXPECT_THAT([&] { make(Split::kTrain)->batch(second); },
              ThrowsMessage<Error>(AllOf(HasSubstr("b.jpg: damaged JPEG file"), HasSubstr("--skip-broken"))));
  const size_t before = broken_image_count();
  const std::string text = logged([&] {
    const auto data = make_dataset("image_folder", Split::kTrain,
                                   {.data_dir = root_, .image_size = 16, .skip_broken = true});
    EXPECT_THAT(data->labels(), ElementsAre(-1, -1));
    data->batch(second);
  });
  EXPECT_THAT(text, HasSubstr("b.jpg: damaged JPEG file"));
  EXPECT_THAT(text, HasSubstr("c.png: is empty: left out"));
  EXPECT_EQ(broken_image_count(), before + 2);
  for (const char* name : {"a.jpg", "d.jpg"}) fs::remove(root_ / name);
  EXPECT_THAT([&] { make_dataset("image_folder", Split::kTrain, {.data_dir = root_, .skip_broken = true}); },
              ThrowsMessage<Error>(HasSubstr("none of its 2 images can be read")));
}

/// Red 10, green 20, blue 30 in every pixel.
TEST_F(ImageFolder, ChannelsMayBeInAnotherOrderOrLast) {
  put("a.png",
      png_bytes({.width = 4, .height = 4, .color_type = PNG_COLOR_TYPE_RGB},
                std::vector(4, std::vector<uint8_t>{10, 20, 30, 10, 20, 30, 10, 20, 30, 10, 20, 30})));
  const auto sample = [&](ChannelOrder order, ImageLayout layout) {
    ImageTransforms transforms{.resize = 4,
                               .center_crop = 2,
                               .image_mean = std::vector<double>{0},
                               .image_std = std::vector<double>{1.0 / 255}};
    transforms.channel_order = order;
    transforms.layout = layout;
    const auto data =
        make_dataset("image_folder", Split::kTest, {.data_dir = root_, .transforms = transforms});
    const Batch batch = data->batch(std::vector<int64_t>{0});
    std::vector<int> levels;
    for (const float value : std::as_const(batch.inputs[0]).values<float>())
      levels.push_back(static_cast<int>(std::lround(value)));
    return std::pair(data->sample_shape(), levels);
  };
  using Levels = std::vector<int>;
  EXPECT_EQ(sample(ChannelOrder::kRgb, ImageLayout::kNchw),
            std::pair(Shape{3, 2, 2}, Levels{10, 10, 10, 10, 20, 20, 20, 20, 30, 30, 30, 30}));
  EXPECT_EQ(sample(ChannelOrder::kBgr, ImageLayout::kNchw),
            std::pair(Shape{3, 2, 2}, Levels{30, 30, 30, 30, 20, 20, 20, 20, 10, 10, 10, 10}));
  EXPECT_EQ(sample(ChannelOrder::kBgr, ImageLayout::kNhwc),
            std::pair(Shape{2, 2, 3}, Levels{30, 20, 10, 30, 20, 10, 30, 20, 10, 30, 20, 10}));
}

TEST_F(ImageFolder, MistakesAreNamed) {
  EXPECT_THAT([&] { make_dataset("image_folder", Split::kTrain); },
              ThrowsMessage<Error>(HasSubstr("--data-dir")));
  expect_error(Split::kTrain, "is no folder");
  put("readme.txt", "");
  expect_error(Split::kTrain, "holds no folder train, and no .jpg");
  put_grey("a.png", 1);
  put("notes/readme.txt", "");
  expect_error(Split::kTrain, "holds no folder train, and beside images the folder notes");
  fs::remove(root_ / "a.png");
  fs::remove_all(root_ / "notes");
  put_grey("test/cat/a.png", 1);
  expect_error(Split::kTrain, "holds no folder train");
  put("train/readme.txt", "");
  expect_error(Split::kTrain, "holds no folder, expected one a class");
  put("train/dog/readme.txt", "");
  expect_error(Split::kTrain, "train: its folders hold no .jpg, .jpeg or .png file");
  put_grey("train/dog/a.png", 1);
  expect_error(Split::kTest, "class \"cat\" is not among the 1 classes of the train folder");
  put("train/dog/b.png", "no image");
  const auto train = make(Split::kTrain);
  const std::vector<int64_t> second = {1};
  EXPECT_THAT([&] { train->batch(second); },
              ThrowsMessage<Error>(AllOf(HasSubstr((root_ / "train/dog/b.png").string()),
                                         HasSubstr("neither a JPEG nor a PNG file"))));
}

}  // namespace
}  // namespace detent
