#include "detent/cli/option_fields.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <regex>
#include <set>

#include "detent/files/file.h"
#include "detent/passes/pass.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

const fs::path kSourceFolder = fs::path(DETENT_SOURCE_DIR) / "src/detent";

/// The text of the files, and of all sources in the folders.
std::string text_of(const std::vector<std::string>& paths) {
  std::string text;
  for (const std::string& path : paths) {
    if (!fs::is_directory(kSourceFolder / path)) {
      text += read_file(kSourceFolder / path);
      continue;
    }
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(kSourceFolder / path)) {
      const std::string name = entry.path().filename().string();
      const bool is_source =
          (name.ends_with(".cc") || name.ends_with(".h")) && name.find("_test.") == std::string::npos;
      if (is_source) text += read_file(entry.path());
    }
  }
  return text;
}

/// The names after a dot: members that are read.
std::set<std::string> members_in(const std::string& text) {
  static const std::regex member(R"([.>](\w+))");
  std::set<std::string> names;
  for (std::sregex_iterator found(text.begin(), text.end(), member), end; found != end; ++found) {
    names.insert((*found)[1]);
  }
  return names;
}

/// Files of the command alone.
std::vector<std::string> own_files(const std::string& command) {
  if (command == "train") return {"cli/torch/train.cc", "cli/torch/training_files.cc", "training"};
  if (command == "test") return {"cli/network/test.cc", "cli/network/dump.cc"};
  if (command == "transform") return {"cli/network/transform.cc", "cli/network/result_folder.cc"};
  if (command == "search") return {"cli/network/search.cc", "cli/network/study_folder.cc"};
  if (command == "compare") return {"cli/network/compare.cc", "cli/network/study_folder.cc"};
  return {"cli/network/quantize.cc", "cli/network/result_folder.cc"};
}

/// dump_nodes is `dump.nodes` in the code.
std::string member_name(const std::string& option) {
  return option.starts_with("dump_") ? option.substr(5) : option;
}

/// Files that commands share.
const std::vector<std::string>& shared_files() {
  static const std::vector<std::string> kFiles = {
      "cli/run_config.cc",         "cli/commands/run_arguments.cc",
      "cli/commands/run.cc",       "cli/torch_half.cc",
      "cli/torch/entry.cc",        "cli/network/session.cc",
      "cli/network/session.h",     "cli/network/session.cc",
      "datasets/image_sampler.cc", "datasets/image_folder.cc"};
  return kFiles;
}

TEST(OptionUse, EachOptionOfACommandIsReadByIt) {
  const std::set<std::string> shared = members_in(text_of(shared_files()));
  for (const char* command : {"train", "test", "transform", "quantize", "search", "compare"}) {
    const std::set<std::string> own = members_in(text_of(own_files(command)));
    for (const OptionField& field : option_fields()) {
      // The only accelerator is the processor, and results are reproducible in any case: these options are
      // checked, which is all that can be done with them.
      const bool always_holds = field.name == "accelerator" || field.name == "reproducible";
      if (!reads_option(command, field.name) || always_holds) continue;
      const std::string name = member_name(field.name);
      EXPECT_TRUE(own.contains(name) || shared.contains(name))
          << "nothing reads " << field.flag << " for `detent " << command << "`: see option_use.cc";
    }
  }
}

/// As `command.options.batch_size` or `command.options.training.batch_size`.
TEST(OptionUse, WhatACommandReadsIsAnOptionOfIt) {
  static const std::regex read(R"(command\.options\.(?:training\.|transforms\.)?(\w+))");
  for (const char* command : {"train", "test", "transform", "quantize", "search", "compare"}) {
    const std::string text = text_of({own_files(command).front()});
    for (std::sregex_iterator found(text.begin(), text.end(), read), end; found != end; ++found) {
      const std::string name = (*found)[1];
      if (name == "training" || name == "transforms") continue;
      EXPECT_TRUE(reads_option(command, name))
          << "`detent " << command << "` reads " << name << " but has no such flag: see option_use.cc";
    }
  }
}

TEST(OptionUse, EachOptionOfAPassIsRead) {
  const std::set<std::string> members = members_in(text_of({"passes", "reconstruction", "statistics"}));
  for (const PassInfo& pass : all_passes()) {
    for (const FieldDescription& option : pass.options) {
      const bool is_table = option.type == "table";  // read by its key
      EXPECT_TRUE(is_table || members.contains(option.name))
          << pass.name << ": nothing reads " << option.name;
    }
  }
}

TEST(OptionUse, NamesTheCommandsThatReadAnOption) {
  EXPECT_EQ(readers_of("engine"), "test");
  EXPECT_EQ(readers_of("batch_size"), "train, test, transform, quantize, search, compare");
  EXPECT_EQ(readers_of("learning_rate"), "train");
}

}  // namespace
}  // namespace detent
