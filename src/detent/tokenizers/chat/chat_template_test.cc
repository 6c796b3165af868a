#include "detent/tokenizers/chat/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "detent/core/error.h"
#include "detent/core/error_of_for_test.h"
#include "detent/files/json.h"
#include "detent/tokenizers/json_object.h"

namespace detent {
namespace {

using testing::HasSubstr;

std::string rendered(const std::string& text) {
  return ChatTemplate(text, "chat").render({{"user", "hello"}}, true, {{"bos_token", "<s>"}});
}

TEST(ChatTemplate, GivesWhatJinjaGives) {
  const Value golden =
      read_json(std::filesystem::path(DETENT_SOURCE_DIR) / "tests/data/tokenizers/chat_templates.json");
  const JsonObject object(golden, "chat_templates.json");
  EXPECT_GT(object.list("templates").size(), 15U);
  for (const Value& value : object.list("templates")) {
    const JsonObject entry(value, "templates");
    const std::string text = entry.text("template");
    EXPECT_EQ(ChatTemplate(text, "chat").render(*object.value("variables").get_if<Table>()),
              entry.text("text"))
        << text;
  }
}

TEST(ChatTemplate, HasTheMessagesAndVariables) {
  EXPECT_EQ(
      rendered(
          "{{ bos_token }}{{ messages[0].role }}: {{ messages[0].content }}{{ 1 if add_generation_prompt }}"),
      "<s>user: hello1");
  EXPECT_EQ(rendered("{{ tools is none }} {{ missing is defined }}{{ missing }}"), "True False");
}

TEST(ChatTemplate, SaysWhereItRefuses) {
  const auto error = [](const std::string& text) { return error_of([&] { rendered(text); }); };
  EXPECT_THAT(error("\n{% call f() %}{% endcall %}"),
              HasSubstr("chat: line 2: the statement \"call\" is not supported"));
  EXPECT_THAT(error("{{ 1|center }}"), HasSubstr("filter \"center\""));
  EXPECT_THAT(error("{{ 1 is callable }}"), HasSubstr("test \"callable\""));
  EXPECT_THAT(error("{{ 'a'.encode() }}"), HasSubstr("method \"encode\""));
  EXPECT_THAT(error("{{ strftime_now('%d') }}"), HasSubstr("function \"strftime_now\""));
  EXPECT_THAT(error("\n\n{{ raise_exception('roles must alternate') }}"),
              HasSubstr("line 3: the template refuses these messages: roles must"));
  EXPECT_THAT(error("{{ missing.x }}"), HasSubstr("undefined"));
  EXPECT_THAT(error("{% if true %}"), HasSubstr("endif"));
  EXPECT_THAT(error("{{ (1 }}"), HasSubstr("\",\" expected"));
  EXPECT_THAT(error("{{ 'a }}"), HasSubstr("does not end"));
}

TEST(ChatTemplate, RefusesWhatMacrosDoNotTake) {
  const auto error = [](const std::string& text) { return error_of([&] { rendered(text); }); };
  EXPECT_THAT(error("{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}"), HasSubstr("takes 1 arguments, got 2"));
  EXPECT_THAT(error("{% macro f(a) %}{% endmacro %}{{ f(b=2) }}"), HasSubstr("no parameter \"b\""));
  EXPECT_THAT(error("{% macro f(a) %}{% endmacro %}{{ f(1, a=2) }}"), HasSubstr("two values for \"a\""));
  EXPECT_THAT(error("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"),
              HasSubstr("50 macros within each other"));
  EXPECT_THAT(error("{% macro f() %}{{ varargs }}{% endmacro %}{{ f() }}"),
              HasSubstr("\"varargs\" in a macro"));
  EXPECT_THAT(error("{% for i in [1] %}{% macro f() %}{% endmacro %}{% endfor %}"),
              HasSubstr("a macro in a loop"));
  EXPECT_THAT(error("{% macro f(a=1, b) %}{% endmacro %}"), HasSubstr("without a default"));
  EXPECT_THAT(error("{% for i in [1] %}{% break %}{% endfor %}{% macro f() %}{% break %}{% endmacro %}"),
              HasSubstr("outside of a loop"));
}

TEST(ChatTemplate, HasWhatAModelWroteInAScopeOfItsOwn) {
  const auto error = [](const std::string& text) { return error_of([&] { rendered(text); }); };
  EXPECT_EQ(rendered("{% set x = 1 %}a{% generation %}{% set x = 2 %}{{ x }}{% endgeneration %}{{ x }}"),
            "a21");
  EXPECT_THAT(error("{% generation %}a"), HasSubstr("endgeneration"));
  EXPECT_THAT(error("{% for a in [1] %}{% generation %}{% break %}{% endgeneration %}{% endfor %}"),
              HasSubstr("outside of a loop"));
}

TEST(ChatTemplate, EndsWhereATemplateWouldNot) {
  EXPECT_THAT(error_of([] {
                rendered("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}");
              }),
              HasSubstr("does not end"));
  std::string deep = "{{ ";
  for (int i = 0; i < 5000; ++i) deep += "(";
  deep += " }}";
  EXPECT_THAT(error_of([&] { rendered(deep); }), HasSubstr("brackets in brackets"));
  EXPECT_THAT(error_of([] { rendered("{% set n = namespace() %}{% set n.x = [n] %}"); }),
              HasSubstr("namespace"));
  EXPECT_THAT(
      error_of([] {
        rendered("{% set n = namespace(x=1) %}{% for i in range(9999) %}{% set n.x = [n.x] %}{% endfor %}");
      }),
      HasSubstr("deeper than"));
  std::string doubled = "{% set x = 'aaaaaaaa' %}";
  for (int i = 0; i < 40; ++i) doubled += "{% set x = x + x %}";
  EXPECT_THAT(error_of([&] { rendered(doubled); }), HasSubstr("bytes"));
}

}  // namespace
}  // namespace detent
