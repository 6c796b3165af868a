#include "detent/report/page.h"

#include <algorithm>
#include <fstream>

#include "detent/core/error.h"
#include "detent/io/json.h"
#include "detent/report/page_parts.h"

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

void replace(std::string& text, std::string_view place, const std::string& by) {
  const size_t at = text.find(place);
  DETENT_CHECK(at != std::string::npos, "the page has no {}", place);
  text.replace(at, place.size(), by);
}

}  // namespace

std::string report_page(const Table& results) {
  std::string page(page_parts::kPage);
  DETENT_CHECK(page.starts_with(kMark), "the page begins with {}", page.substr(0, kMark.size()));
  std::string script;
  for (const std::string_view part : page_parts::kScripts) script.append(part);
  replace(page, "{{title}}", in_html(title_of(results)));
  replace(page, "{{style}}", std::string(page_parts::kStyle));
  replace(page, "{{results}}", in_script(json_text(results, JsonLayout::kOneLine)));
  replace(page, "{{script}}", script);
  return page;
}

bool is_report_page(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string begin(kMark.size(), '\0');
  file.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  return file.gcount() == std::ssize(begin) && begin == kMark;
}

}  // namespace detent
