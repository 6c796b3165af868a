#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "detent/tokenizers/chat/template_value.h"

namespace detent {

struct TemplateToken {
  enum class Kind : uint8_t {
    kText,
    kOutputBegin,
    kOutputEnd,
    kBlockBegin,
    kBlockEnd,
    kName,
    kNumber,
    kString,
    kOperator,
    kEnd
  };
  Kind kind = Kind::kEnd;
  std::string text;
  int line = 0;
};

/// Cuts a template into texts and the contents of {{ }} and {% %}.
std::vector<TemplateToken> template_tokens(std::string_view text, const std::string& name);

struct TemplateExpression {
  enum class Kind : uint8_t {
    kConstant,
    kName,
    kList,
    kTable,
    kAttribute,
    kItem,
    kSlice,
    kCall,
    kFilter,
    kTest,
    kUnary,
    kBinary,
    kAnd,
    kOr,
    kChoice
  };
  Kind kind = Kind::kConstant;
  int line = 0;
  TemplateValue constant;
  std::string name;  // of a variable, attribute, filter, test or operator
  /// Operands: of a filter, test, attribute or call what it is applied to, then arguments; of a slice the
  /// bounds, of which some are null; of a choice the condition, then what is chosen; of a table keys and
  /// values in turn.
  std::vector<std::unique_ptr<TemplateExpression>> parts;
  std::vector<std::pair<std::string, std::unique_ptr<TemplateExpression>>> named;  // arguments
  bool negated = false;                                                            // of a test
};

struct TemplateStatement;

struct TemplateBlock {
  std::vector<std::unique_ptr<TemplateStatement>> statements;
};

struct TemplateStatement {
  enum class Kind : uint8_t {
    kText,
    kOutput,
    kFor,
    kIf,
    kSet,
    kSetBlock,
    kMacro,
    kGeneration,
    kBreak,
    kContinue
  };
  Kind kind = Kind::kText;
  int line = 0;
  std::string text;                  // or the name of a macro
  std::vector<std::string> targets;  // variables of a loop, parameters of a macro; of set: a name, or a
                                     // namespace and its attribute
  /// Conditions of an if, for each block but an else; what the parameters of a macro are by default, null
  /// where they are nothing.
  std::vector<std::unique_ptr<TemplateExpression>> expressions;
  std::unique_ptr<TemplateExpression> condition;  // of a loop's entries
  std::vector<TemplateBlock> blocks;  // of an if; of a loop its body and what runs where there are no entries
};

TemplateBlock parse_template(std::string_view text, const std::string& name);

/// `name` begins messages.
std::string evaluate_template(const TemplateBlock& block, TemplateTable variables, const std::string& name);

/// A call of a filter, test or method: what it is applied to, then its arguments.
struct TemplateArguments {
  std::vector<TemplateValue> values;
  TemplateTable named;

  /// The argument after the subject, by position or name; undefined where there is none.
  TemplateValue get(size_t index, std::string_view name) const;
};

TemplateValue apply_filter(const std::string& filter, const TemplateArguments& arguments);
bool apply_test(const std::string& test, const TemplateArguments& arguments);
TemplateValue call_method(const std::string& method, const TemplateArguments& arguments);
TemplateValue attribute_of(const TemplateValue& value, std::string_view name);
bool contains(const TemplateValue& whole, const TemplateValue& part);
/// The entries of a list, keys of a table, characters of a text; none of an undefined value.
TemplateList entries_of(const TemplateValue& value);
int64_t length_of(const TemplateValue& value);

}  // namespace detent
