#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "detent/language/decoder.h"
#include "detent/language/sampling.h"
#include "detent/tokenizers/chat/chat_template.h"
#include "detent/tokenizers/tokenizer.h"

namespace detent {

/// Messages in the words of the template, with the tokenizer's own bos_token and eos_token;
/// `add_generation_prompt`: and what an answer begins with.
std::string chat_text(const ChatTemplate& chat_template, const std::vector<ChatMessage>& messages,
                      const Tokenizer& tokenizer, bool add_generation_prompt = true);

/// The tokens of that, with no others around.
std::vector<int64_t> chat_tokens(const ChatTemplate& chat_template, const std::vector<ChatMessage>& messages,
                                 const Tokenizer& tokenizer);

struct GenerationOptions {
  int64_t max_tokens = 256;
  SamplingOptions sampling;
  std::vector<std::string> stop;
  bool ignore_end = false;  // tokens that end a text are never drawn
};

/// Throws UsageError naming the option whose value makes no sense.
void check_generation_options(const GenerationOptions& options);

struct GeneratedText {
  std::vector<int64_t> tokens;  // the one that ends the text too
  std::string text;             // without the stop string
  std::string stopped_by;       // "end", "stop", "length" or "signal"; "" as long as it goes on
};

/// A token, and what it adds to the text for certain. The last piece may be text that was held back: of
/// token -1.
struct GeneratedPiece {
  int64_t token = -1;
  std::string text;
};

/// Continues sequences of tokens, one after another. What a sequence has in common with the one before, as
/// those of a chat have, is not computed again; the bits are the same.
class TextGenerator {
 public:
  /// Without a tokenizer texts are empty.
  TextGenerator(std::shared_ptr<const Decoder> decoder, std::optional<Tokenizer> tokenizer,
                std::vector<int64_t> end_tokens);

  /// Begins with a prompt, of which nothing is computed yet. Throws Error where it has no tokens.
  void start(const std::vector<int64_t>& prompt, const GenerationOptions& options);
  /// The next piece of text, nullopt at its end. It ends where a StopSignals has received a signal, too. What
  /// throws may be called again.
  std::optional<GeneratedPiece> next();
  /// The same of several at once, whose weights are read once: what to compute for the next piece, nullopt
  /// where it needs nothing; and the next piece, of its logits.
  std::optional<DecoderInput> input();
  std::optional<GeneratedPiece> next(const Tensor& logits);
  bool is_finished() const { return is_finished_; }
  /// All pieces so far.
  const GeneratedText& generated() const { return generated_; }

  /// All of that, `seen` called for each piece.
  using Seen = std::function<void(int64_t token, std::string_view text)>;
  GeneratedText generate(const std::vector<int64_t>& prompt, const GenerationOptions& options,
                         const Seen& seen);

 private:
  int64_t drawn(const Tensor& logits) const;
  std::optional<GeneratedPiece> last_piece();
  GeneratedPiece added(int64_t token);
  std::string rest_of_text();
  bool ends_text(int64_t token) const;

  std::shared_ptr<const Decoder> decoder_;
  std::optional<Tokenizer> tokenizer_;
  std::vector<int64_t> end_tokens_;
  SequenceCache cache_;
  std::vector<int64_t> cached_;  // the tokens in it

  // The text that is being generated:
  GenerationOptions options_;
  std::vector<int64_t> sequence_;
  std::optional<StreamingDecoder> stream_;
  StopStrings stops_{{}};
  GeneratedText generated_;
  bool is_finished_ = true;
};

/// Runs generators of one decoder to their ends, a token of each at a time: each gives what it gives alone.
/// `seen` is called with the generator's index for each piece.
void generate_texts(const Decoder& decoder, std::span<TextGenerator> generators,
                    const std::function<void(size_t, const GeneratedPiece&)>& seen);

}  // namespace detent
