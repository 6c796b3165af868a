#include "detent/tokenizers/tokenizer.h"

#include <algorithm>

#include <fmt/format.h>

#include "detent/tokenizers/tokenizer_pipeline.h"
#include "detent/tokenizers/unicode.h"

namespace detent {

std::optional<int64_t> find_token(const TokenizerPipeline& pipeline, std::string_view token) {
  if (const AddedToken* added = pipeline.added.find(token)) return added->id;
  return pipeline.model->tokens().find(token);
}

Tokenizer::Tokenizer(std::shared_ptr<const TokenizerPipeline> pipeline) : pipeline_(std::move(pipeline)) {}

std::vector<int64_t> Tokenizer::encode(std::string_view text, bool add_special_tokens) const {
  std::string repaired;
  if (!is_valid_utf8(text)) text = repaired = with_valid_utf8(text);
  std::vector<int64_t> ids;
  for (AddedTokens::Segment& segment : pipeline_->added.segments(text, pipeline_->normalizer)) {
    if (segment.id) {
      ids.push_back(*segment.id);
      continue;
    }
    Words words{std::move(segment.text.text), {}};
    if (words.text.empty()) continue;
    words.words.push_back({0, words.text.size(), segment.text.at_start});
    if (pipeline_->pre_tokenizer) pipeline_->pre_tokenizer(words);
    for (const Words::Word& word : words.words) pipeline_->model->tokenize(words[word], ids);
  }
  for (const SequenceTemplate& parts : pipeline_->templates) {
    std::vector<int64_t> around;
    for (const TemplatePart& part : parts) {
      if (!part.is_sequence && !add_special_tokens) continue;
      const std::vector<int64_t>& added = part.is_sequence ? ids : part.ids;
      around.insert(around.end(), added.begin(), added.end());
    }
    ids = std::move(around);
  }
  return ids;
}

std::string Tokenizer::decode(std::span<const int64_t> ids, bool skip_special_tokens) const {
  std::vector<std::string> tokens;
  const TokenTable& table = pipeline_->model->tokens();
  for (const int64_t id : ids) {
    const std::string* added = pipeline_->added.decoded(id);
    if (added == nullptr && !table.has(id)) continue;
    const std::string& token = added != nullptr ? *added : table.token(id);
    if (skip_special_tokens && pipeline_->added.is_special(token)) continue;
    tokens.push_back(token);
  }
  if (!tokens.empty() && pipeline_->decoder) pipeline_->decoder(tokens);
  std::string text;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0 && !pipeline_->decoder) text += ' ';
    text += tokens[i];
  }
  return text;
}

int64_t Tokenizer::vocabulary_size() const {
  return std::max(pipeline_->model->tokens().size(), pipeline_->added.largest_id() + 1);
}

std::optional<int64_t> Tokenizer::id_of(std::string_view token) const {
  return find_token(*pipeline_, token);
}

std::string Tokenizer::token(int64_t id) const {
  if (const AddedToken* added = pipeline_->added.find(id)) return added->content;
  return pipeline_->model->tokens().token(id);
}

bool Tokenizer::is_special(int64_t id) const {
  const AddedToken* added = pipeline_->added.find(id);
  return added != nullptr && added->special;
}

const SpecialTokens& Tokenizer::special_tokens() const { return pipeline_->special; }

std::string Tokenizer::description() const {
  size_t count = pipeline_->model->tokens().count();
  for (int64_t id = 0; id <= pipeline_->added.largest_id(); ++id)
    if (pipeline_->added.find(id) != nullptr && !pipeline_->model->tokens().has(id)) ++count;
  return fmt::format("{}, {} tokens", pipeline_->kind, count);
}

}  // namespace detent
