#include "detent/language/families/families.h"

#include <algorithm>

#include "detent/core/error.h"

namespace detent {

/// Llama is first: several families have its names of tensors.
std::span<const LanguageFamily> all_language_families() {
  static const std::vector<LanguageFamily> kFamilies = {llama_family(),         albert_family(),
                                                        apertus_family(),       arcee_family(),
                                                        bert_family(),          bitnet_family(),
                                                        bloom_family(),         codegen_family(),
                                                        cohere_family(),        cwm_family(),
                                                        deberta_v2_family(),    deepseek_v2_family(),
                                                        deepseek_v3_family(),   distilbert_family(),
                                                        dots1_family(),         electra_family(),
                                                        ernie4_5_family(),      ernie4_5_moe_family(),
                                                        eurobert_family(),      exaone4_family(),
                                                        falcon_family(),        gemma2_family(),
                                                        gemma3_family(),        gemma3_of_images_family(),
                                                        gemma_family(),         glm4_moe_family(),
                                                        glm4_moe_lite_family(), glm_family(),
                                                        gpt2_family(),          gpt_bigcode_family(),
                                                        gpt_neo_family(),       gpt_neox_family(),
                                                        gpt_oss_family(),       gptj_family(),
                                                        granite_family(),       granitemoe_family(),
                                                        helium_family(),        hunyuan_family(),
                                                        lfm2_family(),          lfm2_moe_family(),
                                                        minicpm3_family(),      ministral3_family(),
                                                        ministral_family(),     mistral_family(),
                                                        mixtral_family(),       modernbert_decoder_family(),
                                                        modernbert_family(),    mpnet_family(),
                                                        mpt_family(),           nemotron_family(),
                                                        nomic_bert_family(),    olmo2_family(),
                                                        olmo_family(),          olmoe_family(),
                                                        opt_family(),           persimmon_family(),
                                                        phi3_family(),          phi_family(),
                                                        qwen2_family(),         qwen2_moe_family(),
                                                        qwen3_family(),         qwen3_moe_family(),
                                                        roberta_family(),       seed_oss_family(),
                                                        smollm3_family(),       stablelm_family(),
                                                        starcoder2_family(),    t5_family(),
                                                        umt5_family(),          youtu_family()};
  return kFamilies;
}

const LanguageFamily& find_language_family(const std::string& name) {
  std::vector<std::string> names;
  for (const LanguageFamily& family : all_language_families()) {
    if (family.name == name) return family;
    names.push_back(family.name);
  }
  fail("{}", unknown_name_message("family of language models", name, names));
}

const LanguageFamily* family_of_model_type(const std::string& model_type) {
  for (const LanguageFamily& family : all_language_families()) {
    if (std::ranges::find(family.model_types, model_type) != family.model_types.end()) return &family;
  }
  return nullptr;
}

}  // namespace detent
