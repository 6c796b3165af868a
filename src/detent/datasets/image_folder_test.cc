#include "detent/datasets/image_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include <sys/resource.h>

#include "detent/core/error.h"
#include "detent/core/sanitizers_for_test.h"
#include "detent/datasets/image_dataset.h"
#include "detent/io/image_for_test.h"

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
    const auto sample = std::as_const(batch.inputs[0]).values<float>().subspan(i * 3 * 256, 3 * 256);
    EXPECT_THAT(sample.subspan(256, 256), Each(green[levels[i]]));
  }
  for (const Split split : {Split::kValidation, Split::kTest, Split::kPrediction}) {
    const auto others = make(split);
    EXPECT_THAT(others->labels(), ElementsAre(1));
    EXPECT_EQ(others->source(), (root_ / "val").string());
  }
}

/// Left and right thirds are black: the middle of what is twice as wide as high is not.
TEST_F(ImageFolder, KeepsTheMiddle) {
  std::vector<uint8_t> row(210, 0);
  std::fill(row.begin() + 50, row.begin() + 160, 255);
  put("test/a/wide.png",
      png_bytes({.width = 210, .height = 64, .color_type = PNG_COLOR_TYPE_GRAY}, std::vector(64, row)));
  const std::vector<int64_t> first = {0};
  const Batch batch = make(Split::kTest, 56)->batch(first);
  EXPECT_THAT(std::as_const(batch.inputs[0]).values<float>().first(56 * 56),
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
  EXPECT_THAT([&] { labels_of("a,b,c\n"); }, ThrowsMessage<Error>(HasSubstr("expected a headline")));
  fs::remove(root_ / "../labels.tsv");
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
