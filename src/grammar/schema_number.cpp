// Decimal comparison by digits: a bound becomes a regular expression, several become an intersection.
#include "grammar/schema_number.h"

#include <algorithm>
#include <charconv>

namespace quern::grammar {

const char* const kIntegerPattern = "^(0|-?[1-9][0-9]{0,18})$";
const char* const kNumberPattern = "^-?(0|[1-9][0-9]{0,18})(\\.[0-9]{1,17})?([eE][+\\-]?[0-9]{1,2})?$";

namespace {

constexpr size_t kMaxWhole = 15;    // digits before the point, of numbers in a range
constexpr size_t kMaxDigits = 15;   // in all, near a bound: so many a double keeps apart
constexpr size_t kMaxInteger = 19;  // digits of whole numbers

using namespace std::string_literals;

std::string digits(size_t n) {
  return n == 0 ? "" : "[0-9]{" + std::to_string(n) + "}";
}

std::string range(char first, char last) {
  return "["s + first + "-" + last + "]";
}

// Alternatives of texts without sign whose value is above |bound| (or equal, where allowed).
std::string magnitude_above(const Decimal& bound, bool exclusive) {
  const std::string &whole = bound.whole, &fraction = bound.fraction;
  const std::string any_fraction = "(\\.[0-9]+)?";
  std::string out = "[1-9]" + digits(whole == "0" ? 0 : whole.size()) + "[0-9]*" + any_fraction;
  if (whole == "0") out = "[1-9][0-9]*" + any_fraction;
  for (size_t i = 0; i < whole.size() && whole != "0"; ++i) {
    if (whole[i] == '9') continue;
    out += "|" + whole.substr(0, i) + range(static_cast<char>(whole[i] + 1), '9') + digits(whole.size() - i - 1) +
           any_fraction;
  }
  for (size_t i = 0; i < fraction.size(); ++i) {
    if (fraction[i] == '9') continue;
    out += "|" + whole + "\\." + fraction.substr(0, i) + range(static_cast<char>(fraction[i] + 1), '9') + "[0-9]*";
  }
  if (!exclusive) return out + "|" + whole + (fraction.empty() ? any_fraction : "\\." + fraction + "[0-9]*");
  return out + "|" + whole + "\\." + fraction + "[0-9]*[1-9][0-9]*";
}

std::string magnitude_below(const Decimal& bound, bool exclusive) {
  const std::string &whole = bound.whole, &fraction = bound.fraction;
  const std::string any_fraction = "(\\.[0-9]+)?";
  std::string out = "[]";  // nothing
  if (whole.size() > 1) out += "|(0|[1-9][0-9]{0," + std::to_string(whole.size() - 2) + "})" + any_fraction;
  for (size_t i = 0; i < whole.size(); ++i) {
    const char first = i == 0 && whole.size() > 1 ? '1' : '0';
    if (whole[i] <= first) continue;
    out += "|" + whole.substr(0, i) + range(first, static_cast<char>(whole[i] - 1)) + digits(whole.size() - i - 1) +
           any_fraction;
  }
  if (!fraction.empty()) out += "|" + whole;
  for (size_t i = 0; i < fraction.size(); ++i) {
    if (i > 0) out += "|" + whole + "\\." + fraction.substr(0, i);
    if (fraction[i] > '0') {
      out += "|" + whole + "\\." + fraction.substr(0, i) + range('0', static_cast<char>(fraction[i] - 1)) + "[0-9]*";
    }
  }
  if (exclusive) return out;
  return out + "|" + whole + (fraction.empty() ? "(\\.0+)?" : "\\." + fraction + "0*");
}

bool is_zero(const Decimal& d) {
  return d.whole == "0" && d.fraction.empty();
}

Result<Dfa> from_text(const std::string& text, DfaWork& work) {
  QUERN_TRY(const Regex regex, parse_regex("^(" + text + ")$"));
  return dfa_of(regex, work);
}

const char* const kAnyMagnitude = "[0-9]+(\\.[0-9]+)?";

std::string above(const NumberBound& bound) {
  if (!bound.value.negative) return magnitude_above(bound.value, bound.exclusive);
  return std::string(kAnyMagnitude) + "|-(" + magnitude_below(bound.value, bound.exclusive) + ")";
}

std::string below(const NumberBound& bound) {
  if (bound.value.negative) return "-(" + magnitude_above(bound.value, bound.exclusive) + ")";
  const std::string positive = magnitude_below(bound.value, bound.exclusive);
  if (!is_zero(bound.value)) return positive + "|-" + kAnyMagnitude;
  return positive + "|-[0-9]*[1-9][0-9]*(\\.[0-9]+)?|-0\\.[0-9]*[1-9][0-9]*";
}

int compare_magnitude(const Decimal& a, const Decimal& b) {
  if (a.whole.size() != b.whole.size()) return a.whole.size() < b.whole.size() ? -1 : 1;
  if (a.whole != b.whole) return a.whole < b.whole ? -1 : 1;
  return a.fraction == b.fraction ? 0 : a.fraction < b.fraction ? -1 : 1;
}

}  // namespace

Decimal decimal_of(const nlohmann::ordered_json& number) {
  char buffer[1200];
  std::to_chars_result end{};
  if (number.is_number_unsigned())
    end = std::to_chars(buffer, buffer + sizeof buffer, number.get<uint64_t>());
  else if (number.is_number_integer())
    end = std::to_chars(buffer, buffer + sizeof buffer, number.get<int64_t>());
  else
    end = std::to_chars(buffer, buffer + sizeof buffer, number.get<double>(), std::chars_format::fixed);
  std::string text(buffer, end.ptr);
  Decimal result;
  if (text[0] == '-') {
    result.negative = true;
    text.erase(0, 1);
  }
  const size_t point = std::min(text.find('.'), text.size());
  result.whole = text.substr(0, point);
  if (point < text.size()) result.fraction = text.substr(point + 1);
  while (!result.fraction.empty() && result.fraction.back() == '0') result.fraction.pop_back();
  if (is_zero(result)) result.negative = false;
  return result;
}

int compare(const Decimal& a, const Decimal& b) {
  if (a.negative != b.negative) return a.negative ? -1 : 1;
  return a.negative ? compare_magnitude(b, a) : compare_magnitude(a, b);
}

void NumberLimits::at_least(const NumberBound& bound) {
  const int order = low ? compare(bound.value, low->value) : 1;
  if (order > 0)
    low = bound;
  else if (order == 0)
    low->exclusive = low->exclusive || bound.exclusive;
}

void NumberLimits::at_most(const NumberBound& bound) {
  const int order = high ? compare(bound.value, high->value) : -1;
  if (order < 0)
    high = bound;
  else if (order == 0)
    high->exclusive = high->exclusive || bound.exclusive;
}

bool NumberLimits::contradictory() const {
  if (!low || !high) return false;
  const int order = compare(low->value, high->value);
  return order > 0 || (order == 0 && (low->exclusive || high->exclusive));
}

Result<Dfa> number_dfa(const NumberLimits& limits, bool integer, DfaWork& work) {
  size_t fraction = kMaxDigits, whole_limit = kMaxWhole;
  std::vector<uint32_t> divisors;
  for (const Decimal& multiple : limits.multiples) {
    const bool tenth = multiple.whole == "0" &&
                       multiple.fraction.find_first_not_of('0') + 1 == multiple.fraction.size() &&
                       !multiple.fraction.empty() && multiple.fraction.back() == '1';
    const bool is_whole =
        multiple.fraction.empty() && multiple.whole.size() <= 5 && std::stoul(multiple.whole) <= 10000;
    if (tenth) {
      fraction = std::min(fraction, multiple.fraction.size());
    } else if (is_whole) {
      integer = true;
      divisors.push_back(static_cast<uint32_t>(std::stoul(multiple.whole)));
    } else {
      return Error{Status::unsupported, "multipleOf can be a whole number up to 10000 or 0.1, 0.01, ... only"};
    }
  }
  // Bounds with more digits than any text has are far away, or out of reach.
  const auto reach = [&](const std::optional<NumberBound>& bound) {
    if (!bound || bound->value.whole.size() <= (integer ? kMaxInteger : kMaxWhole)) return true;
    whole_limit = kMaxWhole;
    return false;
  };
  Dfa nothing;
  const bool low_near = reach(limits.low), high_near = reach(limits.high);
  if ((!low_near && !limits.low->value.negative) || (!high_near && limits.high->value.negative)) return nothing;
  for (const auto* bound : {&limits.low, &limits.high}) {
    if (*bound) fraction = std::min(fraction, kMaxDigits - std::min(kMaxDigits, (*bound)->value.whole.size()));
  }
  std::string base = "0|-?[1-9][0-9]{0," + std::to_string(kMaxInteger - 1) + "}";
  if (!integer) {
    base = "-?(0|[1-9][0-9]{0," + std::to_string(whole_limit - 1) + "})";
    if (fraction > 0) base += "(\\.[0-9]{1," + std::to_string(fraction) + "})?";
  }
  QUERN_TRY(Dfa dfa, from_text(base, work));
  if (limits.low && low_near) {
    QUERN_TRY(const Dfa bound, from_text(above(*limits.low), work));
    QUERN_TRY(dfa, intersect(dfa, bound, work));
  }
  if (limits.high && high_near) {
    QUERN_TRY(const Dfa bound, from_text(below(*limits.high), work));
    QUERN_TRY(dfa, intersect(dfa, bound, work));
  }
  for (const uint32_t divisor : divisors) {
    QUERN_TRY(dfa, intersect(dfa, multiples_of(divisor), work));
  }
  return dfa;
}

}  // namespace quern::grammar
