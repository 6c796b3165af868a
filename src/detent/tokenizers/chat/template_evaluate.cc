#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "detent/core/error.h"
#include "detent/tokenizers/chat/template_syntax.h"
#include "detent/tokenizers/unicode.h"

namespace detent {
namespace {

using ExpressionKind = TemplateExpression::Kind;

// More than chats need: what does not end is refused.
constexpr int64_t kMostTemplateSteps = 5'000'000;
constexpr int64_t kStepsOfAnEntry = 16;
constexpr size_t kLargestOutput = size_t{1} << 26;
constexpr int64_t kLongestRange = 100'000;
constexpr int kDeepestCalls = 50;

enum class Flow : uint8_t { kOn, kBreak, kContinue };

/// A message that already says where it happened.
class PlacedError : public Error {
 public:
  using Error::Error;
};

class Evaluator {
 public:
  Evaluator(TemplateTable variables, const std::string& name) : name_(name) {
    scopes_.push_back(std::move(variables));
  }

  std::string run(const TemplateBlock& block) {
    std::string output;
    run(block, output);
    return output;
  }

 private:
  void count_step(int64_t steps = 1) {
    if ((steps_ += steps) > kMostTemplateSteps) fail("the template does not end");
  }

  Flow run(const TemplateBlock& block, std::string& output) {
    for (const auto& statement : block.statements) {
      Flow flow = Flow::kOn;
      try {
        count_step();
        flow = run(*statement, output);
        if (output.size() > kLargestOutput) fail("the template gives more than {} bytes", kLargestOutput);
      } catch (const PlacedError&) {
        throw;
      } catch (const Error& error) {
        throw PlacedError(fmt::format("{}: line {}: {}", name_, statement->line, error.what()));
      }
      if (flow != Flow::kOn) return flow;
    }
    return Flow::kOn;
  }

  Flow run(const TemplateStatement& statement, std::string& output) {
    switch (statement.kind) {
      case TemplateStatement::Kind::kText:
        output += statement.text;
        return Flow::kOn;
      case TemplateStatement::Kind::kOutput:
        output += to_text(value_of(*statement.expressions[0]));
        return Flow::kOn;
      case TemplateStatement::Kind::kFor:
        return run_for(statement, output);
      case TemplateStatement::Kind::kIf:
        for (size_t i = 0; i < statement.blocks.size(); ++i)
          if (i == statement.expressions.size() || value_of(*statement.expressions[i]).is_true())
            return run(statement.blocks[i], output);
        return Flow::kOn;
      case TemplateStatement::Kind::kSet:
        set(statement.targets, value_of(*statement.expressions[0]));
        return Flow::kOn;
      case TemplateStatement::Kind::kSetBlock: {
        std::string text;
        const Flow flow = run(statement.blocks[0], text);
        set(statement.targets, TemplateValue::of(std::move(text)));
        return flow;
      }
      case TemplateStatement::Kind::kGeneration: {
        scopes_.emplace_back();
        const Flow flow = run(statement.blocks[0], output);
        scopes_.pop_back();
        return flow;
      }
      case TemplateStatement::Kind::kMacro:
        macros_[statement.text] = &statement;
        return Flow::kOn;
      case TemplateStatement::Kind::kBreak:
        return Flow::kBreak;
      case TemplateStatement::Kind::kContinue:
        return Flow::kContinue;
    }
    return Flow::kOn;
  }

  static void set_key(TemplateTable& table, const std::string& key, TemplateValue value) {
    if (TemplateValue* found = find_key(table, key)) {
      *found = std::move(value);
    } else {
      table.emplace_back(key, std::move(value));
    }
  }

  /// It could come to hold itself.
  bool holds_namespace(const TemplateValue& value) {
    count_step();
    if (const TemplateList* list = value.list())
      return std::ranges::any_of(*list, [&](const TemplateValue& entry) { return holds_namespace(entry); });
    if (value.table() == nullptr) return false;
    return namespaces_.contains(value.table()) || std::ranges::any_of(*value.table(), [&](const auto& entry) {
             return holds_namespace(entry.second);
           });
  }

  TemplateValue make_namespace(const TemplateTable& attributes) {
    for (const auto& entry : attributes)
      if (holds_namespace(entry.second)) fail("a namespace in a namespace is not supported");
    TemplateValue space = TemplateValue::of(attributes);
    namespaces_.insert(space.table());
    kept_.push_back(space);
    return space;
  }

  void set(const std::vector<std::string>& targets, TemplateValue value) {
    if (targets.size() == 1) return set_key(scopes_.back(), targets[0], std::move(value));
    const TemplateValue space = variable(targets[0]);
    if (!namespaces_.contains(space.table()))
      fail("\"{}\" is no namespace: its attribute cannot be set", targets[0]);
    if (holds_namespace(value)) fail("a namespace in a namespace is not supported");
    set_key(*space.table(), targets[1], std::move(value));
  }

  TemplateValue variable(const std::string& name) {
    for (size_t i = scopes_.size(); i-- > first_scope_;)
      if (const TemplateValue* found = find_key(scopes_[i], name)) return *found;
    if (const TemplateValue* found = find_key(scopes_.front(), name)) return *found;
    if (calls_ > 0 && (name == "varargs" || name == "kwargs" || name == "caller"))
      fail("\"{}\" in a macro is not supported", name);
    return TemplateValue::undefined(name);
  }

  void bind(const std::vector<std::string>& targets, const TemplateValue& entry) {
    if (targets.size() == 1) return set_key(scopes_.back(), targets[0], entry);
    const TemplateList parts = entries_of(entry);
    if (parts.size() != targets.size()) fail("{} names for {} values", targets.size(), parts.size());
    for (size_t i = 0; i < parts.size(); ++i) set_key(scopes_.back(), targets[i], parts[i]);
  }

  /// Entries that pass the condition of the loop.
  TemplateList loop_entries(const TemplateStatement& statement) {
    TemplateList entries = entries_of(value_of(*statement.expressions[0]));
    if (statement.condition == nullptr) return entries;
    scopes_.emplace_back();
    std::erase_if(entries, [&](const TemplateValue& entry) {
      count_step();
      bind(statement.targets, entry);
      return !value_of(*statement.condition).is_true();
    });
    scopes_.pop_back();
    return entries;
  }

  static TemplateValue loop_value(const TemplateList& entries, size_t index) {
    const auto place = static_cast<int64_t>(index);
    const int64_t count = std::ssize(entries);
    TemplateTable loop = {{"index0", TemplateValue::of(place)},
                          {"index", TemplateValue::of(place + 1)},
                          {"first", TemplateValue::of(index == 0)},
                          {"last", TemplateValue::of(place + 1 == count)},
                          {"length", TemplateValue::of(count)},
                          {"revindex", TemplateValue::of(count - place)},
                          {"revindex0", TemplateValue::of(count - place - 1)}};
    if (index > 0) loop.emplace_back("previtem", entries[index - 1]);
    if (place + 1 < count) loop.emplace_back("nextitem", entries[index + 1]);
    return TemplateValue::of(std::move(loop));
  }

  Flow run_for(const TemplateStatement& statement, std::string& output) {
    const TemplateList entries = loop_entries(statement);
    if (entries.empty() && statement.blocks.size() > 1) return run(statement.blocks[1], output);
    for (size_t i = 0; i < entries.size(); ++i) {
      count_step(kStepsOfAnEntry);
      scopes_.emplace_back();
      set_key(scopes_.back(), "loop", loop_value(entries, i));
      bind(statement.targets, entries[i]);
      const Flow flow = run(statement.blocks[0], output);
      scopes_.pop_back();
      if (flow == Flow::kBreak) break;
    }
    return Flow::kOn;
  }

  TemplateValue value_of(const TemplateExpression& expression) {
    count_step();
    switch (expression.kind) {
      case ExpressionKind::kConstant:
        return expression.constant;
      case ExpressionKind::kName:
        return variable(expression.name);
      case ExpressionKind::kList: {
        TemplateList list;
        for (const auto& part : expression.parts) list.push_back(value_of(*part));
        return TemplateValue::of(std::move(list));
      }
      case ExpressionKind::kTable:
        return table_of(expression);
      case ExpressionKind::kAttribute:
        return attribute_of(value_of(*expression.parts[0]), expression.name);
      case ExpressionKind::kItem: {
        const TemplateValue whole = value_of(*expression.parts[0]);
        return item(whole, value_of(*expression.parts[1]));
      }
      case ExpressionKind::kSlice:
        return slice(expression);
      case ExpressionKind::kCall:
        return call(expression);
      case ExpressionKind::kFilter:
        return apply_filter(expression.name, arguments_of(expression));
      case ExpressionKind::kTest:
        return TemplateValue::of(apply_test(expression.name, arguments_of(expression)) != expression.negated);
      case ExpressionKind::kUnary:
        return unary(expression.name, value_of(*expression.parts[0]));
      case ExpressionKind::kBinary: {
        const TemplateValue left = value_of(*expression.parts[0]);
        return binary(expression.name, left, value_of(*expression.parts[1]));
      }
      case ExpressionKind::kAnd:
      case ExpressionKind::kOr: {
        TemplateValue left = value_of(*expression.parts[0]);
        return left.is_true() == (expression.kind == ExpressionKind::kOr) ? left
                                                                          : value_of(*expression.parts[1]);
      }
      case ExpressionKind::kChoice:
        if (value_of(*expression.parts[0]).is_true()) return value_of(*expression.parts[1]);
        return expression.parts.size() > 2 ? value_of(*expression.parts[2])
                                           : TemplateValue::undefined("else");
    }
    return {};
  }

  TemplateValue table_of(const TemplateExpression& expression) {
    TemplateTable table;
    for (size_t i = 0; i + 1 < expression.parts.size(); i += 2) {
      const TemplateValue key = value_of(*expression.parts[i]);
      if (key.text() == nullptr) fail("a key of a dict that is no text is not supported: {}", to_text(key));
      set_key(table, *key.text(), value_of(*expression.parts[i + 1]));
    }
    return TemplateValue::of(std::move(table));
  }

  TemplateArguments arguments_of(const TemplateExpression& expression) {
    TemplateArguments arguments;
    for (const auto& part : expression.parts) arguments.values.push_back(value_of(*part));
    for (const auto& [name, part] : expression.named) arguments.named.emplace_back(name, value_of(*part));
    return arguments;
  }

  static TemplateValue item(const TemplateValue& whole, const TemplateValue& key) {
    if (whole.is_undefined()) fail("an item is asked of what is undefined");
    if (key.text() != nullptr) return attribute_of(whole, *key.text());
    if (key.integer() == nullptr) fail("{} is no index", key.kind());
    if (whole.list() == nullptr && whole.text() == nullptr) return TemplateValue::undefined("item");
    const TemplateList entries = entries_of(whole);
    const int64_t index = *key.integer() < 0 ? *key.integer() + std::ssize(entries) : *key.integer();
    if (index < 0 || index >= std::ssize(entries)) return TemplateValue::undefined("item");
    return entries[static_cast<size_t>(index)];
  }

  std::optional<int64_t> bound(const TemplateExpression& expression, size_t part) {
    if (expression.parts[part] == nullptr) return std::nullopt;
    const TemplateValue value = value_of(*expression.parts[part]);
    if (value.is_none()) return std::nullopt;
    if (value.integer() == nullptr) fail("{} is no bound of a slice", value.kind());
    return *value.integer();
  }

  TemplateValue slice(const TemplateExpression& expression) {
    const TemplateValue whole = value_of(*expression.parts[0]);
    if (whole.list() == nullptr && whole.text() == nullptr) fail("{} has no slices", whole.kind());
    const TemplateList entries = entries_of(whole);
    const int64_t count = std::ssize(entries);
    const int64_t step = bound(expression, 3).value_or(1);
    if (step == 0) fail("the step of a slice is 0");
    const int64_t lowest = step > 0 ? 0 : -1;
    const int64_t highest = step > 0 ? count : count - 1;
    const auto place = [&](size_t part, int64_t otherwise) {
      const std::optional<int64_t> given = bound(expression, part);
      if (!given) return otherwise;
      return std::clamp(*given < 0 ? std::max(*given, -count - 1) + count : *given, lowest, highest);
    };
    const int64_t begin = place(1, step > 0 ? 0 : count - 1);
    const int64_t end = place(2, step > 0 ? count : -1);
    TemplateList taken;
    for (int64_t i = begin; step > 0 ? i < end : i > end;) {
      taken.push_back(entries[static_cast<size_t>(i)]);
      if (std::llabs(step) > count) break;
      i += step;
    }
    if (whole.list() != nullptr) return TemplateValue::of(std::move(taken));
    std::string text;
    for (const TemplateValue& character : taken) text += *character.text();
    return TemplateValue::of(std::move(text));
  }

  TemplateValue call(const TemplateExpression& expression) {
    const TemplateExpression& called = *expression.parts[0];
    TemplateArguments arguments;
    arguments.values.push_back(called.kind == ExpressionKind::kAttribute ? value_of(*called.parts[0])
                                                                         : TemplateValue());
    for (size_t i = 1; i < expression.parts.size(); ++i)
      arguments.values.push_back(value_of(*expression.parts[i]));
    for (const auto& [name, part] : expression.named) arguments.named.emplace_back(name, value_of(*part));
    if (called.kind == ExpressionKind::kAttribute) return call_method(called.name, arguments);
    const auto macro = macros_.find(called.name);
    if (macro != macros_.end()) return call_macro(*macro->second, arguments);
    if (called.name == "raise_exception")
      fail("the template refuses these messages: {}", to_text(arguments.get(0, "message")));
    if (called.name == "namespace") return make_namespace(arguments.named);
    if (called.name == "dict") return TemplateValue::of(arguments.named);
    if (called.name == "range") return range(arguments);
    fail(
        "the function \"{}\" is not supported (supported: dict, namespace, raise_exception, range, macros of "
        "the "
        "template)",
        called.name);
  }

  /// The text of the macro, which sees its parameters and the variables outside of all blocks.
  TemplateValue call_macro(const TemplateStatement& macro, const TemplateArguments& arguments) {
    if (calls_ == kDeepestCalls)
      fail("more than {} macros within each other are not supported", kDeepestCalls);
    const size_t given = arguments.values.size() - 1;
    if (given > macro.targets.size())
      fail("the macro \"{}\" takes {} arguments, got {}", macro.text, macro.targets.size(), given);
    TemplateTable parameters;
    for (size_t i = 0; i < given; ++i) set_key(parameters, macro.targets[i], arguments.values[i + 1]);
    for (const auto& [name, value] : arguments.named) {
      if (std::ranges::find(macro.targets, name) == macro.targets.end())
        fail("the macro \"{}\" has no parameter \"{}\"", macro.text, name);
      if (find_key(parameters, name) != nullptr)
        fail("the macro \"{}\" got two values for \"{}\"", macro.text, name);
      set_key(parameters, name, value);
    }
    const size_t outside = std::exchange(first_scope_, scopes_.size());
    ++calls_;
    scopes_.push_back(std::move(parameters));
    for (size_t i = 0; i < macro.targets.size(); ++i) {
      if (find_key(scopes_.back(), macro.targets[i]) != nullptr) continue;
      TemplateValue value = macro.expressions[i] == nullptr ? TemplateValue::undefined(macro.targets[i])
                                                            : value_of(*macro.expressions[i]);
      set_key(scopes_.back(), macro.targets[i], std::move(value));
    }
    std::string text;
    run(macro.blocks[0], text);
    scopes_.pop_back();
    --calls_;
    first_scope_ = outside;
    return TemplateValue::of(std::move(text));
  }

  static TemplateValue range(const TemplateArguments& arguments) {
    std::vector<int64_t> numbers;
    for (size_t i = 1; i < arguments.values.size(); ++i) {
      if (arguments.values[i].integer() == nullptr) fail("range expects integers");
      numbers.push_back(*arguments.values[i].integer());
    }
    if (numbers.empty() || numbers.size() > 3) fail("range expects 1 to 3 integers");
    const int64_t begin = numbers.size() == 1 ? 0 : numbers[0];
    const int64_t end = numbers.size() == 1 ? numbers[0] : numbers[1];
    const int64_t step = numbers.size() == 3 ? numbers[2] : 1;
    if (step == 0) fail("the step of a range is 0");
    TemplateList list;
    for (int64_t i = begin; step > 0 ? i < end : i > end; i += step) {
      if (std::ssize(list) == kLongestRange)
        fail("a range of more than {} numbers is not supported", kLongestRange);
      list.push_back(TemplateValue::of(i));
    }
    return TemplateValue::of(std::move(list));
  }

  static TemplateValue unary(const std::string& operation, const TemplateValue& value) {
    if (operation == "not") return TemplateValue::of(!value.is_true());
    const double sign = operation == "-" ? -1 : 1;
    if (value.integer() != nullptr)
      return TemplateValue::of(operation == "-" ? -*value.integer() : *value.integer());
    if (value.floating() != nullptr) return TemplateValue::of(sign * *value.floating());
    fail("\"{}\" of {} is not defined", operation, value.kind());
  }

  static TemplateValue binary(const std::string& operation, const TemplateValue& left,
                              const TemplateValue& right) {
    if (operation == "==") return TemplateValue::of(left == right);
    if (operation == "!=") return TemplateValue::of(!(left == right));
    if (operation == "<") return TemplateValue::of(compare(left, right) < 0);
    if (operation == "<=") return TemplateValue::of(compare(left, right) <= 0);
    if (operation == ">") return TemplateValue::of(compare(left, right) > 0);
    if (operation == ">=") return TemplateValue::of(compare(left, right) >= 0);
    if (operation == "in") return TemplateValue::of(contains(right, left));
    if (operation == "not in") return TemplateValue::of(!contains(right, left));
    if (operation == "~") return joined(to_text(left), to_text(right));
    if (operation == "+" && left.text() != nullptr && right.text() != nullptr)
      return joined(*left.text(), *right.text());
    if (operation == "+" && left.list() != nullptr && right.list() != nullptr) {
      TemplateList list = *left.list();
      list.insert(list.end(), right.list()->begin(), right.list()->end());
      return TemplateValue::of(std::move(list));
    }
    return arithmetic(operation, left, right);
  }

  static TemplateValue joined(const std::string& left, const std::string& right) {
    if (left.size() + right.size() > kLargestOutput)
      fail("a text of more than {} bytes is not supported", kLargestOutput);
    return TemplateValue::of(left + right);
  }

  static TemplateValue arithmetic(const std::string& operation, const TemplateValue& left,
                                  const TemplateValue& right) {
    double a = 0;
    double b = 0;
    if (!left.number(a) || !right.number(b))
      fail("{} {} {} is not defined", left.kind(), operation, right.kind());
    const bool are_whole = left.floating() == nullptr && right.floating() == nullptr;
    const bool divides = operation == "/" || operation == "//" || operation == "%";
    if (divides && b == 0) fail("division by zero");
    double result = 0;
    if (operation == "+") result = a + b;
    if (operation == "-") result = a - b;
    if (operation == "*") result = a * b;
    if (operation == "/") return TemplateValue::of(a / b);
    if (operation == "//") result = std::floor(a / b);
    if (operation == "%") result = a - b * std::floor(a / b);
    if (!are_whole) return TemplateValue::of(result);
    constexpr double kLargest = 9007199254740992;  // 2^53: below, the result is exact
    if (std::fabs(result) > kLargest || std::fabs(a) > kLargest || std::fabs(b) > kLargest)
      fail("numbers beyond 2^53 are not supported");
    return TemplateValue::of(static_cast<int64_t>(result));
  }

  const std::string& name_;
  std::vector<TemplateTable> scopes_;  // the first is outside of all blocks
  size_t first_scope_ = 1;             // of the macro that runs
  int calls_ = 0;                      // of macros, within each other
  std::map<std::string, const TemplateStatement*, std::less<>> macros_;
  std::set<const TemplateTable*> namespaces_;
  std::vector<TemplateValue> kept_;  // so that no other table gets the address of a namespace
  int64_t steps_ = 0;
};

}  // namespace

std::string evaluate_template(const TemplateBlock& block, TemplateTable variables, const std::string& name) {
  return Evaluator(std::move(variables), name).run(block);
}

}  // namespace detent
