#pragma once

#include <memory>
#include <string>
#include <vector>

#include "detent/tokenizers/added_tokens.h"
#include "detent/tokenizers/subword_model.h"
#include "detent/tokenizers/text_steps.h"
#include "detent/tokenizers/tokenizer.h"

namespace detent {

/// A part of an encoded text: special tokens `ids`, or the sequence itself where there are none.
struct TemplatePart {
  bool is_sequence = false;
  std::vector<int64_t> ids;
};
using SequenceTemplate = std::vector<TemplatePart>;

/// Applied one after another.
std::vector<SequenceTemplate> make_templates(const Value& value, const std::string& name);

/// The parts of a tokenizer, in the order in which a text goes through them.
class TokenizerPipeline {
 public:
  AddedTokens added{{}, {}, ""};
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  std::unique_ptr<SubwordModel> model;
  std::vector<SequenceTemplate> templates;
  TokenDecoder decoder;  // empty: tokens with spaces between them
  SpecialTokens special;
  std::string kind;  // for people
};

/// The id of a token, of an added one or the model's.
std::optional<int64_t> find_token(const TokenizerPipeline& pipeline, std::string_view token);

/// The parts that a tokenizer.json describes.
TokenizerPipeline read_pipeline(const Value& json, const std::string& name);

}  // namespace detent
