#include <algorithm>
#include <array>
#include <cstdlib>

#include "detent/core/error.h"
#include "detent/tokenizers/chat/template_syntax.h"

namespace detent {
namespace {

using Expression = std::unique_ptr<TemplateExpression>;
using ExpressionKind = TemplateExpression::Kind;
using Token = TemplateToken::Kind;

constexpr int kDeepestNesting = 100;

/// Counts how deep a parser is while it lives.
class Depth {
 public:
  explicit Depth(int& depth) : depth_(depth) { ++depth_; }
  ~Depth() { --depth_; }
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;

 private:
  int& depth_;
};

class TemplateParser {
 public:
  TemplateParser(std::vector<TemplateToken> tokens, const std::string& name)
      : tokens_(std::move(tokens)), name_(name) {}

  TemplateBlock parse() {
    TemplateBlock block = parse_block({});
    if (token().kind != Token::kEnd) refuse(fmt::format("\"{}\" without its beginning", word_of_block()));
    return block;
  }

 private:
  const TemplateToken& token() const { return tokens_[position_]; }
  const TemplateToken& next_token() const { return tokens_[std::min(position_ + 1, tokens_.size() - 1)]; }
  [[noreturn]] void refuse(const std::string& problem) const {
    fail("{}: line {}: {}", name_, token().line, problem);
  }

  bool is_operator(std::string_view text) const {
    return token().kind == Token::kOperator && token().text == text;
  }
  bool is_name(std::string_view text) const { return token().kind == Token::kName && token().text == text; }
  bool take_operator(std::string_view text) {
    if (!is_operator(text)) return false;
    ++position_;
    return true;
  }
  bool take_name(std::string_view text) {
    if (!is_name(text)) return false;
    ++position_;
    return true;
  }
  void expect_operator(std::string_view text) {
    if (!take_operator(text)) refuse(fmt::format("\"{}\" expected, not \"{}\"", text, token().text));
  }
  void expect(Token kind, std::string_view what) {
    if (token().kind != kind) refuse(fmt::format("{} expected, not \"{}\"", what, token().text));
    ++position_;
  }
  std::string expect_name() {
    const std::string text = token().text;
    expect(Token::kName, "a name");
    return text;
  }

  // Statements.

  std::string_view word_of_block() const {
    if (token().kind != Token::kBlockBegin) return {};
    return next_token().text;
  }

  /// Up to a block that begins with one of `ends`, or the end of the template.
  TemplateBlock parse_block(std::initializer_list<std::string_view> ends) {
    const Depth depth(depth_);
    if (depth_ > kDeepestNesting) refuse("too many blocks in blocks");
    TemplateBlock block;
    while (token().kind != Token::kEnd) {
      if (token().kind == Token::kText) {
        auto statement = make_statement(TemplateStatement::Kind::kText);
        statement->text = token().text;
        ++position_;
        block.statements.push_back(std::move(statement));
      } else if (token().kind == Token::kOutputBegin) {
        ++position_;
        auto statement = make_statement(TemplateStatement::Kind::kOutput);
        statement->expressions.push_back(parse_expression());
        expect(Token::kOutputEnd, "\"}}\"");
        block.statements.push_back(std::move(statement));
      } else if (std::find(ends.begin(), ends.end(), word_of_block()) != ends.end() ||
                 word_of_block().starts_with("end")) {
        return block;
      } else {
        ++position_;
        if (auto statement = parse_statement()) block.statements.push_back(std::move(statement));
      }
    }
    return block;
  }

  std::unique_ptr<TemplateStatement> make_statement(TemplateStatement::Kind kind) const {
    auto statement = std::make_unique<TemplateStatement>();
    statement->kind = kind;
    statement->line = token().line;
    return statement;
  }

  void end_tag() { expect(Token::kBlockEnd, "\"%}\""); }

  void expect_block(std::string_view word) {
    if (word_of_block() != word) refuse(fmt::format("{{% {} %}} expected", word));
    position_ += 2;
    end_tag();
  }

  std::unique_ptr<TemplateStatement> parse_statement() {
    if (take_name("for")) return parse_for();
    if (take_name("if")) return parse_if();
    if (take_name("set")) return parse_set();
    if (take_name("macro")) return parse_macro();
    if (take_name("generation")) return parse_generation();
    if (is_name("break") || is_name("continue")) {
      auto statement = make_statement(is_name("break") ? TemplateStatement::Kind::kBreak
                                                       : TemplateStatement::Kind::kContinue);
      if (loops_ == 0) refuse(fmt::format("\"{}\" outside of a loop", token().text));
      ++position_;
      end_tag();
      return statement;
    }
    refuse(
        fmt::format("the statement \"{}\" is not supported (supported: break, continue, for, generation, if, "
                    "macro, set)",
                    token().text));
  }

  std::unique_ptr<TemplateStatement> parse_for() {
    auto statement = make_statement(TemplateStatement::Kind::kFor);
    const bool in_brackets = take_operator("(");
    do {
      statement->targets.push_back(expect_name());
    } while (take_operator(","));
    if (in_brackets) expect_operator(")");
    if (!take_name("in")) refuse("\"in\" expected");
    statement->expressions.push_back(parse_or());
    if (take_name("if")) statement->condition = parse_expression();
    if (is_name("recursive")) refuse("a recursive loop is not supported");
    end_tag();
    ++loops_;
    statement->blocks.push_back(parse_block({"else"}));
    --loops_;
    if (word_of_block() == "else") {
      expect_block("else");
      statement->blocks.push_back(parse_block({}));
    }
    expect_block("endfor");
    return statement;
  }

  std::unique_ptr<TemplateStatement> parse_if() {
    auto statement = make_statement(TemplateStatement::Kind::kIf);
    for (;;) {
      statement->expressions.push_back(parse_expression());
      end_tag();
      statement->blocks.push_back(parse_block({"elif", "else"}));
      if (word_of_block() != "elif") break;
      position_ += 2;
    }
    if (word_of_block() == "else") {
      expect_block("else");
      statement->blocks.push_back(parse_block({}));
    }
    expect_block("endif");
    return statement;
  }

  std::unique_ptr<TemplateStatement> parse_set() {
    auto statement = make_statement(TemplateStatement::Kind::kSet);
    statement->targets.push_back(expect_name());
    if (take_operator(".")) statement->targets.push_back(expect_name());
    if (is_operator(",")) refuse("setting several names at once is not supported");
    if (take_operator("=")) {
      statement->expressions.push_back(parse_expression());
      end_tag();
      return statement;
    }
    statement->kind = TemplateStatement::Kind::kSetBlock;
    if (is_operator("|")) refuse("a filter of a block is not supported");
    end_tag();
    statement->blocks.push_back(parse_block({}));
    expect_block("endset");
    return statement;
  }

  std::unique_ptr<TemplateStatement> parse_macro() {
    if (loops_ > 0 || in_macro_) refuse("a macro in a loop or a macro is not supported");
    auto statement = make_statement(TemplateStatement::Kind::kMacro);
    statement->text = expect_name();
    expect_operator("(");
    while (!take_operator(")")) {
      if (!statement->targets.empty()) expect_operator(",");
      statement->targets.push_back(expect_name());
      const bool has_default = take_operator("=");
      if (!has_default && !statement->expressions.empty() && statement->expressions.back() != nullptr)
        refuse("a parameter without a default after one with a default");
      statement->expressions.push_back(has_default ? parse_expression() : nullptr);
    }
    end_tag();
    in_macro_ = true;
    statement->blocks.push_back(parse_block({}));
    in_macro_ = false;
    expect_block("endmacro");
    return statement;
  }

  /// Marks what a model wrote, for training: its text, in a scope of its own.
  std::unique_ptr<TemplateStatement> parse_generation() {
    auto statement = make_statement(TemplateStatement::Kind::kGeneration);
    end_tag();
    const int loops = std::exchange(loops_, 0);
    statement->blocks.push_back(parse_block({}));
    loops_ = loops;
    expect_block("endgeneration");
    return statement;
  }

  // Expressions, by rising precedence.

  Expression make(ExpressionKind kind, std::string text = "") const {
    auto expression = std::make_unique<TemplateExpression>();
    expression->kind = kind;
    expression->line = token().line;
    expression->name = std::move(text);
    return expression;
  }
  Expression make_binary(ExpressionKind kind, std::string text, Expression left, Expression right) const {
    Expression expression = make(kind, std::move(text));
    expression->parts.push_back(std::move(left));
    expression->parts.push_back(std::move(right));
    return expression;
  }

  Expression parse_expression() {
    const Depth depth(depth_);
    if (depth_ > kDeepestNesting) refuse("too many brackets in brackets");
    Expression value = parse_or();
    while (take_name("if")) {
      Expression choice = make(ExpressionKind::kChoice);
      choice->parts.push_back(parse_or());
      choice->parts.push_back(std::move(value));
      if (take_name("else")) choice->parts.push_back(parse_expression());
      value = std::move(choice);
    }
    return value;
  }

  Expression parse_or() {
    Expression left = parse_and();
    while (take_name("or")) {
      Expression right = parse_and();
      left = make_binary(ExpressionKind::kOr, "or", std::move(left), std::move(right));
    }
    return left;
  }

  Expression parse_and() {
    Expression left = parse_not();
    while (take_name("and")) {
      Expression right = parse_not();
      left = make_binary(ExpressionKind::kAnd, "and", std::move(left), std::move(right));
    }
    return left;
  }

  Expression parse_not() {
    const Depth depth(depth_);
    if (depth_ > kDeepestNesting) refuse("too many \"not\"");
    if (!take_name("not")) return parse_comparison();
    Expression expression = make(ExpressionKind::kUnary, "not");
    expression->parts.push_back(parse_not());
    return expression;
  }

  Expression parse_comparison() {
    Expression left = parse_sum();
    bool compared = false;
    for (;;) {
      std::string operation;
      for (const std::string_view text : {"==", "!=", "<=", ">=", "<", ">"})
        if (operation.empty() && take_operator(text)) operation = text;
      if (operation.empty() && take_name("in")) operation = "in";
      if (operation.empty() && is_name("not") && next_token().kind == Token::kName &&
          next_token().text == "in") {
        position_ += 2;
        operation = "not in";
      }
      if (operation.empty()) return left;
      if (compared) refuse("several comparisons in one are not supported");
      compared = true;
      Expression right = parse_sum();
      left = make_binary(ExpressionKind::kBinary, operation, std::move(left), std::move(right));
    }
  }

  Expression parse_operators(std::initializer_list<std::string_view> operations,
                             Expression (TemplateParser::*operand)()) {
    Expression left = (this->*operand)();
    for (;;) {
      const auto* const found = std::find_if(operations.begin(), operations.end(),
                                             [&](std::string_view text) { return is_operator(text); });
      if (found == operations.end()) return left;
      ++position_;
      Expression right = (this->*operand)();
      left = make_binary(ExpressionKind::kBinary, std::string(*found), std::move(left), std::move(right));
    }
  }
  Expression parse_sum() { return parse_operators({"+", "-"}, &TemplateParser::parse_joined); }
  Expression parse_joined() { return parse_operators({"~"}, &TemplateParser::parse_product); }
  Expression parse_product() {
    return parse_operators({"*", "/", "//", "%"}, &TemplateParser::parse_filtered);
  }

  Expression parse_filtered() {
    Expression value = parse_signed();
    for (;;) {
      if (is_operator("**")) refuse("the operator \"**\" is not supported");
      if (take_operator("|")) {
        Expression filter = make(ExpressionKind::kFilter, expect_name());
        filter->parts.push_back(std::move(value));
        if (take_operator("(")) parse_arguments(*filter);
        value = std::move(filter);
      } else if (take_name("is")) {
        const bool negated = take_name("not");
        Expression test = make(ExpressionKind::kTest, expect_name());
        test->negated = negated;
        test->parts.push_back(std::move(value));
        if (take_operator("(")) {
          parse_arguments(*test);
        } else if (takes_argument()) {
          test->parts.push_back(parse_signed());
        }
        value = std::move(test);
      } else {
        return value;
      }
    }
  }

  /// Whether the argument of a test stands here without brackets.
  bool takes_argument() const {
    const Token kind = token().kind;
    if (kind == Token::kString || kind == Token::kNumber || is_operator("[") || is_operator("{")) return true;
    return kind == Token::kName && !is_name("else") && !is_name("or") && !is_name("and") && !is_name("if") &&
           !is_name("is") && !is_name("in") && !is_name("not");
  }

  Expression parse_signed() {
    const Depth depth(depth_);
    if (depth_ > kDeepestNesting) refuse("too many signs");
    for (const std::string_view sign : {"-", "+"}) {
      if (!take_operator(sign)) continue;
      Expression expression = make(ExpressionKind::kUnary, std::string(sign));
      expression->parts.push_back(parse_signed());
      return expression;
    }
    return parse_postfix(parse_primary());
  }

  Expression parse_postfix(Expression value) {
    for (;;) {
      if (take_operator(".")) {
        const std::string attribute = token().text;
        if (token().kind != Token::kName && token().kind != Token::kNumber)
          refuse("the name of an attribute expected");
        ++position_;
        Expression expression = make(ExpressionKind::kAttribute, attribute);
        expression->parts.push_back(std::move(value));
        value = std::move(expression);
      } else if (take_operator("[")) {
        value = parse_item(std::move(value));
      } else if (take_operator("(")) {
        if (value->kind != ExpressionKind::kName && value->kind != ExpressionKind::kAttribute)
          refuse("only functions and methods are called");
        Expression call = make(ExpressionKind::kCall, value->name);
        call->parts.push_back(std::move(value));
        parse_arguments(*call);
        value = std::move(call);
      } else {
        return value;
      }
    }
  }

  Expression parse_item(Expression value) {
    Expression item = make(ExpressionKind::kItem);
    item->parts.push_back(std::move(value));
    if (!is_operator(":")) item->parts.push_back(parse_expression());
    if (take_operator("]")) return item;
    item->kind = ExpressionKind::kSlice;
    item->parts.resize(4);
    for (size_t part = 2; part < 4 && take_operator(":"); ++part)
      if (!is_operator(":") && !is_operator("]")) item->parts[part] = parse_expression();
    expect_operator("]");
    return item;
  }

  void parse_arguments(TemplateExpression& call) {
    while (!take_operator(")")) {
      if (token().kind == Token::kName && next_token().kind == Token::kOperator && next_token().text == "=") {
        const std::string name = expect_name();
        expect_operator("=");
        call.named.emplace_back(name, parse_expression());
      } else {
        call.parts.push_back(parse_expression());
      }
      if (!is_operator(")")) expect_operator(",");
    }
  }

  Expression parse_primary() {
    const TemplateToken current = token();
    if (current.kind == Token::kEnd) refuse("unexpected end");
    Expression expression = make(ExpressionKind::kConstant);
    ++position_;
    switch (current.kind) {
      case Token::kString: {
        std::string text = current.text;
        while (token().kind == Token::kString) text += tokens_[position_++].text;
        expression->constant = TemplateValue::of(std::move(text));
        return expression;
      }
      case Token::kNumber:
        expression->constant = number(current.text);
        return expression;
      case Token::kName:
        return named(current.text, std::move(expression));
      case Token::kOperator:
        if (current.text == "(") return parse_brackets();
        if (current.text == "[") return parse_list("]", std::move(expression));
        if (current.text == "{") return parse_table(std::move(expression));
        break;
      default:
        break;
    }
    --position_;
    refuse(fmt::format("an expression expected, not \"{}\"", current.text));
  }

  TemplateValue number(const std::string& text) const {
    if (text.find('.') != std::string::npos) return TemplateValue::of(std::strtod(text.c_str(), nullptr));
    constexpr size_t kMostDigits = 18;
    if (text.size() > kMostDigits) refuse(fmt::format("the number {} is too large", text));
    return TemplateValue::of(static_cast<int64_t>(std::strtoll(text.c_str(), nullptr, 10)));
  }

  static Expression named(const std::string& name, Expression expression) {
    if (name == "true" || name == "True") {
      expression->constant = TemplateValue::of(true);
    } else if (name == "false" || name == "False") {
      expression->constant = TemplateValue::of(false);
    } else if (name == "none" || name == "None") {
      expression->constant = TemplateValue::none();
    } else {
      expression->kind = ExpressionKind::kName;
      expression->name = name;
    }
    return expression;
  }

  /// An expression in brackets, or a tuple, which is a list here.
  Expression parse_brackets() {
    Expression list = make(ExpressionKind::kList);
    if (take_operator(")")) return list;
    Expression first = parse_expression();
    if (take_operator(")")) return first;
    list->parts.push_back(std::move(first));
    expect_operator(",");
    return parse_list(")", std::move(list));
  }

  Expression parse_list(std::string_view end, Expression list) {
    list->kind = ExpressionKind::kList;
    while (!take_operator(end)) {
      list->parts.push_back(parse_expression());
      if (!is_operator(end)) expect_operator(",");
    }
    return list;
  }

  Expression parse_table(Expression table) {
    table->kind = ExpressionKind::kTable;
    while (!take_operator("}")) {
      table->parts.push_back(parse_expression());
      expect_operator(":");
      table->parts.push_back(parse_expression());
      if (!is_operator("}")) expect_operator(",");
    }
    return table;
  }

  std::vector<TemplateToken> tokens_;
  const std::string& name_;
  size_t position_ = 0;
  int depth_ = 0;
  int loops_ = 0;
  bool in_macro_ = false;
};

}  // namespace

TemplateBlock parse_template(std::string_view text, const std::string& name) {
  return TemplateParser(template_tokens(text, name), name).parse();
}

}  // namespace detent
