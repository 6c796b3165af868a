#include "detent/core/error.h"
#include "detent/language/families/config_reader.h"
#include "detent/language/families/families.h"

namespace detent {
LanguageConfig read_unpadded_encoder(const ConfigReader& json, const std::string& family, int64_t pad) {
  LanguageConfig config = read_encoder(json, family);
  if (pad < 0 || pad + 1 >= config.positions)
    fail("{}: \"pad_token_id\" is {}, expected a row of the {} positions", json.where(), pad,
         config.positions);
  config.pad = pad;
  config.position_offset = pad + 1;
  config.context = config.positions - config.position_offset;
  config.position_count = PositionCount::kUnpadded;
  return config;
}

LanguageFamily roberta_family() {
  return {.name = "roberta",
          .model_types = {"roberta", "xlm-roberta", "camembert"},
          .help = "RoBERTa, XLM-RoBERTa and CamemBERT, encoders",
          .config =
              [](const ConfigReader& json) {
                return read_unpadded_encoder(json, "roberta", json.integer("pad_token_id", 1));
              },
          .weights = [] { return encoder_weights("roberta."); },
          .ignored = encoder_heads()};
}

}  // namespace detent
