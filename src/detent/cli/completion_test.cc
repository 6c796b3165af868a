#include "detent/cli/command_description.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace detent {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Not;

std::vector<std::string> after(const std::vector<std::string>& words) {
  static const std::vector<CommandDescription> kCommands = describe(all_commands());
  return completions(kCommands, words);
}

TEST(Completion, CommandsAndTheirParts) {
  EXPECT_THAT(after({}), IsSupersetOf({"train", "quantize", "tensor", "completion"}));
  EXPECT_THAT(after({}), Not(Contains("complete")));
  EXPECT_THAT(after({"tensor"}), ElementsAre("quantize", "unpack", "compare"));
  EXPECT_THAT(after({"unknown"}), IsEmpty());
}

TEST(Completion, OptionsAndWhatTheyTake) {
  EXPECT_THAT(after({"train", "digits_cnn", "digits"}),
              AllOf(Contains("--max-epochs"), Not(Contains("digits"))));
  EXPECT_THAT(after({"train", "--training-optimizer"}), ElementsAre("adam", "adamw", "sgd"));
  EXPECT_THAT(after({"test", "--engine"}), IsSupersetOf({"simulation", "reference", "fast"}));
  EXPECT_THAT(after({"train", "--load"}), IsEmpty()) << "files";
  EXPECT_THAT(after({"completion"}), IsSupersetOf({"bash", "zsh"}));
}

TEST(Completion, ModelsAndDataSetsByTheirPlace) {
  EXPECT_THAT(after({"train"}), AllOf(Contains("digits_cnn"), Not(Contains("cifar10"))));
  EXPECT_THAT(after({"train", "digits_cnn"}), AllOf(Contains("cifar10"), Not(Contains("digits_cnn"))));
  EXPECT_THAT(after({"train", "--batch-size", "8", "digits_cnn"}), Contains("cifar10"));
  EXPECT_THAT(after({"train", "--model"}), Contains("digits_cnn"));
}

TEST(ManualPage, HasEveryOptionAndNoLineThatRoffWouldTakeForItsOwn) {
  const std::vector<CommandDescription> commands = describe(all_commands());
  const std::string page = manual_page(commands);
  EXPECT_THAT(page, AllOf(HasSubstr(".SS detent tensor quantize"), HasSubstr("\\-\\-max\\-epochs")));
  const std::vector<std::string> macros = {".TH", ".SH", ".SS", ".TP", ".B", ".I", ".RI", ".IR"};
  for (size_t at = 0; at < page.size(); at = page.find('\n', at) + 1) {
    if (page[at] != '.' && page[at] != '\'') continue;
    EXPECT_THAT(macros, Contains(page.substr(at, page.find_first_of(" \n", at) - at)));
  }
  for (const CommandDescription& command : commands) {
    EXPECT_FALSE(command.help.empty()) << command.name;
    for (const OptionDescription& option : command.options)
      EXPECT_FALSE(option.help.empty()) << command.name << ' ' << option.place;
  }
}

}  // namespace
}  // namespace detent
