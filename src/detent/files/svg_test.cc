#include "detent/files/svg.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "detent/core/error.h"
#include "detent/files/file.h"
#include "detent/files/temporary_file_test.h"

namespace detent {
namespace {

TEST(SvgDrawing, WritesItsElementsInOrder) {
  SvgDrawing drawing(20, 10.5);
  drawing.rectangle(1, 2.25, 3, 4, "#4477aa");
  drawing.line(0, -0.001, 5, 6, "grey", 0.5);
  drawing.text(3, 4, "a < b & \"c\"", 12, SvgDrawing::Anchor::kMiddle);
  EXPECT_EQ(drawing.to_text(),
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\" width=\"20\" height=\"10.5\" "
            "viewBox=\"0 0 20 10.5\">\n"
            "<rect x=\"0\" y=\"0\" width=\"20\" height=\"10.5\" fill=\"white\"/>\n"
            "<rect x=\"1\" y=\"2.25\" width=\"3\" height=\"4\" fill=\"#4477aa\"/>\n"
            "<line x1=\"0\" y1=\"0\" x2=\"5\" y2=\"6\" stroke=\"grey\" stroke-width=\"0.5\"/>\n"
            "<text x=\"3\" y=\"4\" font-size=\"12\" text-anchor=\"middle\" font-family=\"sans-serif\">"
            "a &lt; b &amp; &quot;c&quot;</text>\n</svg>\n");
}

TEST(SvgDrawing, IsWrittenWholeOrNotAtAll) {
  const TemporaryPath picture_path("drawing.svg");
  const std::string path = picture_path.get().string();
  const SvgDrawing drawing(4, 4);
  drawing.write(path);
  EXPECT_EQ(read_file(path), drawing.to_text());
  EXPECT_THROW(drawing.write(testing::TempDir()), Error);
}

}  // namespace
}  // namespace detent
