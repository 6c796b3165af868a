#include "detent/core/error.h"
#include "detent/language/families/config_reader.h"
#include "detent/language/families/families.h"

namespace detent {
namespace {

/// As BERT; positions count tokens other than the padding, from the row after that of the padding on.
LanguageConfig read_roberta(const ConfigReader& json) {
  LanguageConfig config = read_encoder(json, "roberta");
  const int64_t pad = json.integer("pad_token_id", 1);
  if (pad < 0 || pad + 1 >= config.positions)
    fail("{}: \"pad_token_id\" is {}, expected a row of the {} positions", json.where(), pad,
         config.positions);
  config.pad = pad;
  config.position_offset = pad + 1;
  config.context = config.positions - config.position_offset;
  config.position_count = PositionCount::kUnpadded;
  return config;
}

}  // namespace

LanguageFamily roberta_family() {
  return {.name = "roberta",
          .model_types = {"roberta", "xlm-roberta", "camembert"},
          .help = "RoBERTa, XLM-RoBERTa and CamemBERT, encoders",
          .config = read_roberta,
          .weights = [] { return encoder_weights("roberta."); },
          .ignored = encoder_heads()};
}

}  // namespace detent
