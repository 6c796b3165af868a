#include "detent/report/page.h"

#include <array>
#include <fstream>
#include <utility>

#include "detent/core/error.h"
#include "detent/files/json.h"

namespace detent {
namespace {

constexpr std::string_view kMark = "<!doctype html><!-- detent report -->";

/// Text between <script> tags ends at the first "</", wherever it stands; in JSON "<" only occurs in strings.
std::string in_script(std::string json) {
  for (size_t at = json.find('<'); at != std::string::npos; at = json.find('<', at))
    json.replace(at, 1, "\\u003c");
  return json;
}

std::string in_html(std::string_view text) {
  std::string escaped;
  for (const char letter : text) {
    switch (letter) {
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '&':
        escaped += "&amp;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += letter;
    }
  }
  return escaped;
}

std::string title_of(const Table& results) {
  std::string title = "Detent";
  if (const Value* command = results.find("command")) title += " " + *command->get_if<std::string>();
  const Value* network = results.find("network");
  if (network != nullptr) title += ": " + *network->get_if<Table>()->find("name")->get_if<std::string>();
  return title;
}

}  // namespace

std::string report_page(const Table& results) {
  std::string script;
  for (const std::string_view part : page_parts::kScripts) script.append(part);
  const std::array<std::pair<std::string_view, std::string>, 4> texts = {
      {{"{{title}}", in_html(title_of(results))},
       {"{{style}}", std::string(page_parts::kStyle)},
       {"{{results}}", in_script(json_text(results, JsonLayout::kOneLine))},
       {"{{script}}", script}}};
  DETENT_CHECK(page_parts::kPage.starts_with(kMark), "the page does not begin with {}", kMark);
  std::string page;
  size_t from = 0;
  for (const auto& [place, text] : texts) {
    const size_t at = page_parts::kPage.find(place, from);
    DETENT_CHECK(at != std::string_view::npos, "the page has no {}", place);
    page.append(page_parts::kPage.substr(from, at - from)).append(text);
    from = at + place.size();
  }
  page.append(page_parts::kPage.substr(from));
  return page;
}

bool is_report_page(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string begin(kMark.size(), '\0');
  file.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  return file.gcount() == std::ssize(begin) && begin == kMark;
}

}  // namespace detent
