// Reports as a browser shows them: Chromium runs the page, clicks and types, and writes down what it sees.

#include <cstdlib>
#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/files/file.h"
#include "detent/files/json.h"
#include "program_in_folder_for_test.h"

namespace detent {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsSupersetOf;

bool has_browser() { return std::system("command -v chromium > /dev/null 2>&1") == 0; }

/// Put before the page's own script: what goes wrong in it.
constexpr const char* kWatch =
    "<script>window.faults = []; window.addEventListener('error', (event) => faults.push(event.message));"
    "</script></head>";

/// Put after it: uses the page, and leaves what it saw for --dump-dom.
constexpr const char* kVisit = R"(<script>
  const seen = { faults };
  const $ = (selector) => document.querySelector(selector);
  const all = (selector) => [...document.querySelectorAll(selector)];
  const details = () => $('#details').textContent;
  seen.title = document.title;
  seen.sections = all('h2').map((heading) => heading.textContent);
  seen.facts = all('.facts dt').map((term) => term.textContent);
  const nodes = all('button[data-node]');
  seen.nodes = nodes.map((button) => button.dataset.node);
  seen.requests = performance.getEntriesByType('resource').length;
  const map = heatMap(['layers_10_k', 'layers_2_k', 'layers_2_q', 'head'].map((name, value) => ({ name, value })));
  seen.map = [...map.querySelectorAll('tr')].map((row) => [...row.children].map((cell) => cell.textContent).join(' '));
  seen.no_map = heatMap(['conv1', 'conv2', 'layers_0_q'].map((name, value) => ({ name, value }))) === null;
  seen.unnamed = all('button, input, svg[role=img]').filter((e) => !e.textContent && !e.getAttribute('aria-label')).length;
  if (nodes.length > 0) {
    const layer = nodes.find((button) => button.dataset.node === 'head_conv') || nodes[0];
    layer.click();
    seen.pressed = all('[aria-pressed=true]').map((button) => button.dataset.node);
    seen.details = details();
    seen.histograms = all('#details figure').length;
    seen.grid_lines = all('#details figure:first-of-type .grid').length;
    layer.focus();
    layer.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowDown', bubbles: true }));
    seen.after_arrow = document.activeElement.dataset.node;
    const height = () => Number($('.rows svg').getAttribute('height'));
    const before = height();
    all('.controls button')[0].click();
    seen.zoom = height() / before;
    const search = $('input[type=search]');
    search.value = 'conv2d';
    search.dispatchEvent(new Event('input'));
    seen.found = nodes.filter((button) => !button.parentNode.hidden).length;
  }
  document.body.append(Object.assign(document.createElement('pre'), { id: 'seen', textContent: JSON.stringify(seen) }));
</script></body>)";

class ReportPage : public TrainedDigits {
 protected:
  /// Results of `kVisit` for the page.
  static Table visited(const std::string& page) {
    std::string html = read_file(folder() / page);
    html.replace(html.find("</head>"), 7, kWatch);
    html.replace(html.rfind("</body>"), 7, kVisit);
    write_file(folder() / "visited.html", html);
    EXPECT_EQ(
        run("timeout 120 chromium --headless --no-sandbox --disable-gpu --user-data-dir=browser --dump-dom "
            "visited.html 2> /dev/null > dom.html; cp dom.html log.txt"),
        0);
    std::string dom = read_file(folder() / "dom.html");
    const std::string begin = "<pre id=\"seen\">";
    const size_t from = dom.find(begin);
    EXPECT_NE(from, std::string::npos) << dom.substr(0, 2000);
    if (from == std::string::npos) return {};
    const size_t start = from + begin.size();
    return *parse_json(dom.substr(start, dom.find("</pre>", start) - start), page).get_if<Table>();
  }

  static std::vector<std::string> texts(const Table& seen, const char* key) {
    std::vector<std::string> result;
    for (const Value& value : *seen.find(key)->get_if<List>()) result.push_back(*value.get_if<std::string>());
    return result;
  }

  const std::string quantize_ =
      "detent quantize digits_cnn digits --load digits.pt "
      "--weights int4 --project quantized --overwrite ";
};

TEST_F(ReportPage, ShowsAQuantizedNetworkToBrowserKeyboardAndReader) {
  ASSERT_EQ(run(quantize_ + "--report quantize.html"), 0) << log();
  EXPECT_LT(fs::file_size(folder() / "quantize.html"), 200'000U);
  if (!has_browser()) GTEST_SKIP() << "chromium is not installed";
  const Table seen = visited("quantize.html");
  EXPECT_THAT(texts(seen, "faults"), testing::IsEmpty());
  EXPECT_EQ(*seen.find("requests"), Value(0));
  EXPECT_EQ(*seen.find("unnamed"), Value(0));
  EXPECT_THAT(texts(seen, "map"), testing::ElementsAre(" k q", "layers_2 1.0 2.0", "layers_10 0.0 "));
  EXPECT_EQ(*seen.find("no_map"), Value(true));
  EXPECT_THAT(texts(seen, "sections"), IsSupersetOf({"Summary", "Network", "Sensitivity", "Size by layer",
                                                     "Outputs", "Configuration"}));
  EXPECT_THAT(texts(seen, "facts"),
              IsSupersetOf({"accuracy, float", "accuracy, quantized", "weights, quantized"}));
  EXPECT_EQ(seen.find("nodes")->get_if<List>()->size(), 15U);
  EXPECT_THAT(texts(seen, "pressed"), testing::ElementsAre("head_conv"));
  const std::string details = *seen.find("details")->get_if<std::string>();
  for (const char* part : {"conv2d", "computes in", "integers", "SQNR alone", "SQNR together", "saturated",
                           "weight: affine, 4 bits, channel", "the format holds 16", "clipped"})
    EXPECT_THAT(details, HasSubstr(part));
  EXPECT_EQ(*seen.find("histograms"), Value(3));
  EXPECT_EQ(*seen.find("after_arrow"), Value("relu_3"));
  EXPECT_EQ(*seen.find("zoom"), Value(1.25));
  EXPECT_EQ(*seen.find("found"), Value(4));
}

TEST_F(ReportPage, ShowsTimesAndAccuracy) {
  ASSERT_EQ(run(quantize_), 0) << log();
  const std::string graph = "detent_output/quantized/software/quantize/graph_module.mz";
  ASSERT_EQ(run("detent bench " + graph + " --seconds 0.01 --profile --report bench.html"), 0) << log();
  ASSERT_EQ(run("detent test digits_cnn digits --load " + graph + " --report test.html"), 0) << log();
  if (!has_browser()) GTEST_SKIP() << "chromium is not installed";
  const Table bench = visited("bench.html");
  EXPECT_THAT(texts(bench, "faults"), testing::IsEmpty());
  EXPECT_THAT(texts(bench, "sections"), IsSupersetOf({"Network", "Time by step", "Latency"}));
  EXPECT_THAT(*bench.find("details")->get_if<std::string>(), HasSubstr("kernel"));
  const Table test = visited("test.html");
  EXPECT_THAT(texts(test, "faults"), testing::IsEmpty());
  EXPECT_THAT(texts(test, "facts"), IsSupersetOf({"accuracy, quantized"}));
}

TEST_F(ReportPage, ShowsStatisticsAndWhatPassesReport) {
  write_file(folder() / "profile.toml", R"(model = "digits_cnn"
dataset = "digits"
[passes.profile_statistics]
by = "type"
target_activation_nodes = ["conv2d", "linear"]
[passes.profile_statistics.activation_statistics.range_min_max]
[passes.save_node_meta_param]
save_path = "statistics.toml"
)");
  ASSERT_EQ(run("detent transform --config profile.toml --project profiled --report transform.html --load "
                "digits.pt"),
            0)
      << log();
  ASSERT_EQ(run("detent stats show statistics.toml --report stats.html"), 0) << log();
  if (!has_browser()) GTEST_SKIP() << "chromium is not installed";
  const Table transform = visited("transform.html");
  EXPECT_THAT(texts(transform, "faults"), testing::IsEmpty());
  EXPECT_THAT(texts(transform, "sections"), IsSupersetOf({"Network", "Size by layer", "Configuration"}));
  const Table stats = visited("stats.html");
  EXPECT_THAT(texts(stats, "faults"), testing::IsEmpty());
  EXPECT_THAT(texts(stats, "sections"), testing::ElementsAre("Statistics"));
}

TEST_F(ReportPage, ShowsWhatASearchFound) {
  ASSERT_EQ(run("detent search digits_cnn digits --project searched --max-drop 2 --evaluations 60 --report "
                "search.html --load digits.pt"),
            0)
      << log();
  if (!has_browser()) GTEST_SKIP() << "chromium is not installed";
  const Table search = visited("search.html");
  EXPECT_THAT(texts(search, "faults"), testing::IsEmpty());
  EXPECT_THAT(texts(search, "sections"),
              IsSupersetOf({"Pareto front", "Network", "Sensitivity of operands", "Configuration"}));
}

TEST_F(ReportPage, ReplacesOnlyReports) {
  ASSERT_EQ(run(quantize_ + "--report again.html"), 0) << log();
  std::string without_overwrite = quantize_;
  without_overwrite.erase(without_overwrite.find("--overwrite "));
  EXPECT_EQ(run(without_overwrite + "--report again.html"), 1);
  EXPECT_THAT(log(), HasSubstr("--report: again.html exists"));
  ASSERT_EQ(run(quantize_ + "--report again.html"), 0) << log();
  write_file(folder() / "mine.html", "<p>mine");
  EXPECT_EQ(run(quantize_ + "--report mine.html"), 1);
  EXPECT_THAT(log(), HasSubstr("is no report: choose another name"));
  EXPECT_EQ(read_file(folder() / "mine.html"), "<p>mine");
  EXPECT_EQ(run(quantize_ + "--report page.txt"), 2);
  EXPECT_THAT(log(), HasSubstr("--report: got \"page.txt\", expected a name that ends in .html"));
}

TEST_F(ReportPage, JsonIsAllThatStandardOutputHolds) {
  const std::string graph = "detent_output/quantized/software/quantize/graph_module.mz";
  ASSERT_EQ(run(quantize_), 0) << log();
  for (const std::string& command :
       {quantize_, "detent test digits_cnn digits --load " + graph, "detent bench --seconds 0.01 " + graph,
        std::string("detent formats"), std::string("detent data list"), "detent run " + graph,
        "detent tensor quantize --format int4 -o packed.safetensors " + graph}) {
    SCOPED_TRACE(command);
    ASSERT_EQ(run("sh -c '" + command + " --json 2> /dev/null'"), 0) << log();
    const Value value = parse_json(log(), "output");
    EXPECT_EQ(*value.get_if<Table>()->find("schema"), Value("detent results"));
    EXPECT_GT(value.get_if<Table>()->size(), 5U) << "more than what every object has";
  }
}

}  // namespace
}  // namespace detent
