#include "detent/language/families/config_reader.h"
#include "detent/language/families/families.h"

namespace detent {
namespace {

/// As BERT; tokens may have a size of their own.
LanguageConfig read_electra(const ConfigReader& json) {
  constexpr int64_t kTokenSize = 128;
  LanguageConfig config = read_encoder(json, "electra");
  config.embedded_size = json.integer("embedding_size", kTokenSize);
  return config;
}

std::vector<StoredName> electra_weights() {
  std::vector<StoredName> rules = encoder_weights("electra.");
  rules.push_back({"project_in", "electra.embeddings_project"});
  return rules;
}

std::vector<std::string> electra_heads() {
  std::vector<std::string> heads = encoder_heads();
  heads.insert(heads.end(), {"discriminator_predictions.", "generator_predictions.", "generator_lm_head."});
  return heads;
}

}  // namespace

LanguageFamily electra_family() {
  return {.name = "electra",
          .model_types = {"electra"},
          .help = "ELECTRA, an encoder",
          .config = read_electra,
          .weights = electra_weights,
          .ignored = electra_heads()};
}

}  // namespace detent
