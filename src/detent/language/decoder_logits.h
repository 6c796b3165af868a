#pragma once

#include <string>
#include <vector>

#include "detent/language/decoder.h"
#include "detent/language/perplexity.h"

namespace detent {

/// As many tokens at a time as have logits of 32 MiB, within reason.
int64_t piece_of_logits(const Decoder& decoder);

/// Runs sequences through a decoder, `piece` tokens at a time; 0: as many as have logits of 32 MiB. The bits
/// do not depend on it. Keeps a reference.
LogitsOf logits_of(const Decoder& decoder, int64_t piece = 0);

/// Those in an array [scored tokens, vocabulary] that an earlier run has kept, in the order in which they are
/// asked for. Throws Error, beginning with `name`, where they are of another number of tokens than these
/// windows score.
LogitsOf kept_logits(const Tensor& logits, const std::vector<TokenWindow>& windows, const std::string& name);

}  // namespace detent
