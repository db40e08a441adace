// Global functions, the binding of native arguments, and JSON read as values.
#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "token/jinja_interp.h"

namespace quern::token::jinja {

Result<Params> bind(std::string_view function, const Args& args, std::initializer_list<std::string_view> names,
                    size_t n_required) {
  Params params;
  if (args.positional.size() > names.size()) {
    return type_error(std::string(function) + "() takes at most " + std::to_string(names.size()) + " argument(s)");
  }
  for (size_t i = 0; i < args.positional.size(); ++i) {
    params.values[i] = args.positional[i];
    params.given[i] = true;
  }
  for (const auto& [name, value] : args.named) {
    const auto found = std::find(names.begin(), names.end(), name);
    const auto i = static_cast<size_t>(found - names.begin());
    if (found == names.end() || params.given[i]) {
      return type_error(std::string(function) + "() got an unexpected or repeated argument '" + std::string(name) +
                        "'");
    }
    params.values[i] = value;
    params.given[i] = true;
  }
  for (size_t i = 0; i < n_required; ++i) {
    if (params.given[i]) continue;
    return type_error(std::string(function) + "() misses its argument '" + std::string(names.begin()[i]) + "'");
  }
  return params;
}

Result<int64_t> integer_of(const Value& value, std::string_view what) {
  if (value.is(Kind::integer)) return value.integer;
  if (value.is(Kind::boolean)) return int64_t{value.boolean ? 1 : 0};
  if (value.is(Kind::undefined)) return type_error(undefined_message(value));
  return type_error(std::string(what) + " must be an integer, not " + type_name(value));
}

Result<int64_t> integer_param(const Params& params, size_t i, int64_t fallback, std::string_view what) {
  return params.has(i) ? integer_of(params.values[i], what) : Result<int64_t>(fallback);
}

namespace {

constexpr int64_t kMaxRange = 100000;                 // items; the sandbox's own limit
constexpr int64_t kMaxRangeBound = int64_t{1} << 61;  // so that no sum of bounds and steps overflows

Result<Value> global_range(Interp& interp, const Value&, const Args& args) {
  if (args.positional.empty() || args.positional.size() > 3 || !args.named.empty()) {
    return type_error("range() takes one to three integers");
  }
  int64_t numbers[3] = {0, 0, 1};
  for (size_t i = 0; i < args.positional.size(); ++i) {
    QUERN_TRY(numbers[i], integer_of(args.positional[i], "an argument of range()"));
    if (numbers[i] > kMaxRangeBound || numbers[i] < -kMaxRangeBound) return type_error("range() argument too large");
  }
  if (args.positional.size() == 1) std::swap(numbers[0], numbers[1]);
  auto* range = interp.heap().make<RangeObj>();
  range->start = numbers[0];
  range->stop = numbers[1];
  range->step = numbers[2];
  if (range->step == 0) return type_error("range() arg 3 must not be zero");
  if (range->step > 0 && range->start < range->stop) range->length = (range->stop - range->start - 1) / range->step + 1;
  if (range->step < 0 && range->start > range->stop)
    range->length = (range->start - range->stop - 1) / -range->step + 1;
  if (range->length > kMaxRange) {
    return Error{Status::limit_exceeded, "range() gives more than " + std::to_string(kMaxRange) + " items"};
  }
  return Value(Kind::range, range);
}

// dict(mapping or pairs, name=value ...)
Result<DictObj*> make_dict(Interp& interp, const Args& args) {
  Heap& heap = interp.heap();
  auto* dict = heap.make<DictObj>();
  if (args.positional.size() > 1) return type_error("dict() takes at most one positional argument");
  if (!args.positional.empty() && args.positional[0].is(Kind::dict)) {
    for (const auto& entry : args.positional[0].dict().entries) {
      QUERN_TRY_VOID(dict_set(heap, *dict, entry.key, entry.value));
    }
  } else if (!args.positional.empty()) {
    QUERN_TRY(const auto items, to_vector(heap, args.positional[0]));
    for (const auto& item : items) {
      QUERN_TRY(const auto pair, to_vector(heap, item));
      if (pair.size() != 2) return type_error("dict() needs pairs");
      QUERN_TRY_VOID(dict_set(heap, *dict, pair[0], pair[1]));
    }
  }
  for (const auto& [name, value] : args.named) QUERN_TRY_VOID(dict_set(heap, *dict, heap.literal(name), value));
  return dict;
}

Result<Value> global_dict(Interp& interp, const Value&, const Args& args) {
  QUERN_TRY(DictObj * dict, make_dict(interp, args));
  return Value(Kind::dict, dict);
}

Result<Value> global_namespace(Interp& interp, const Value&, const Args& args) {
  QUERN_TRY(DictObj * dict, make_dict(interp, args));
  for (const auto& entry : dict->entries) {
    if (entry.key.is(Kind::string) && entry.key.text().starts_with("_")) {
      return type_error("namespace attributes must not begin with an underscore: '" + std::string(entry.key.text()) +
                        "'");
    }
  }
  auto* object = interp.heap().make<NamespaceObj>();
  object->attributes = dict;
  return Value(Kind::name_space, object);
}

Result<Value> global_cycler(Interp& interp, const Value&, const Args& args) {
  if (args.positional.empty()) return type_error("at least one item has to be provided");
  auto* cycler = interp.heap().make<CyclerObj>();
  cycler->items = args.positional;
  return Value(Kind::cycler, cycler);
}

Result<Value> global_joiner(Interp& interp, const Value&, const Args& args) {
  QUERN_TRY(const Params params, bind("joiner", args, {"sep"}));
  auto* joiner = interp.heap().make<JoinerObj>();
  joiner->separator = params.given[0] ? params.values[0] : interp.heap().literal(", ");
  return Value(Kind::joiner, joiner);
}

Result<Value> global_raise_exception(Interp& interp, const Value&, const Args& args) {
  QUERN_TRY(const Params params, bind("raise_exception", args, {"message"}, 1));
  QUERN_TRY(const Value message, to_str(interp.heap(), params.values[0]));
  return interp.raised(std::string(message.text()));
}

std::string padded(int value, int width, char fill) {
  std::string digits = std::to_string(value);
  if (digits.size() < static_cast<size_t>(width)) digits.insert(0, static_cast<size_t>(width) - digits.size(), fill);
  return digits;
}

int bounded(int value, int count) {
  return value >= 0 && value < count ? value : 0;
}

// One strftime conversion in the C locale; false for one that is not known.
bool append_time(std::string& out, char conversion, bool plain, const std::tm& t) {
  static constexpr const char* kDays[] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};
  static constexpr const char* kMonths[] = {"January", "February", "March",     "April",   "May",      "June",
                                            "July",    "August",   "September", "October", "November", "December"};
  const auto number = [&](int value, int width, char fill = '0') { out += padded(value, plain ? 0 : width, fill); };
  const int hour12 = t.tm_hour % 12 == 0 ? 12 : t.tm_hour % 12;
  const std::string day = kDays[bounded(t.tm_wday, 7)];
  const std::string month = kMonths[bounded(t.tm_mon, 12)];
  switch (conversion) {
    case 'a':
      out += day.substr(0, 3);
      return true;
    case 'A':
      out += day;
      return true;
    case 'b':
    case 'h':
      out += month.substr(0, 3);
      return true;
    case 'B':
      out += month;
      return true;
    case 'd':
      number(t.tm_mday, 2);
      return true;
    case 'e':
      number(t.tm_mday, 2, ' ');
      return true;
    case 'f':
      out += "000000";
      return true;
    case 'H':
      number(t.tm_hour, 2);
      return true;
    case 'I':
      number(hour12, 2);
      return true;
    case 'j':
      number(t.tm_yday + 1, 3);
      return true;
    case 'm':
      number(t.tm_mon + 1, 2);
      return true;
    case 'M':
      number(t.tm_min, 2);
      return true;
    case 'p':
      out += t.tm_hour < 12 ? "AM" : "PM";
      return true;
    case 'S':
      number(t.tm_sec, 2);
      return true;
    case 'u':
      number(bounded(t.tm_wday, 7) == 0 ? 7 : t.tm_wday, 1);
      return true;
    case 'w':
      number(bounded(t.tm_wday, 7), 1);
      return true;
    case 'U':
      number((t.tm_yday + 7 - bounded(t.tm_wday, 7)) / 7, 2);
      return true;
    case 'W':
      number((t.tm_yday + 7 - (bounded(t.tm_wday, 7) + 6) % 7) / 7, 2);
      return true;
    case 'y':
      number((t.tm_year % 100 + 100) % 100, 2);
      return true;
    case 'Y':
      out += std::to_string(t.tm_year + 1900);
      return true;
    case 'z':
    case 'Z':
      return true;  // the clock gives local time without a zone
    case 'n':
      out += '\n';
      return true;
    case 't':
      out += '\t';
      return true;
    case '%':
      out += '%';
      return true;
    default:
      return false;
  }
}

// What a compound conversion stands for in the C locale, or null.
const char* compound(char conversion) {
  switch (conversion) {
    case 'c':
      return "%a %b %e %H:%M:%S %Y";
    case 'D':
    case 'x':
      return "%m/%d/%y";
    case 'F':
      return "%Y-%m-%d";
    case 'r':
      return "%I:%M:%S %p";
    case 'R':
      return "%H:%M";
    case 'T':
    case 'X':
      return "%H:%M:%S";
    default:
      return nullptr;
  }
}

Result<void> append_times(std::string& out, std::string_view format, const std::tm& t) {
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 >= format.size()) {
      out += format[i];
      continue;
    }
    const bool plain = format[i + 1] == '-' && i + 2 < format.size();
    i += plain ? 2 : 1;
    if (const char* whole = compound(format[i])) {
      QUERN_TRY_VOID(append_times(out, whole, t));
    } else if (!append_time(out, format[i], plain, t)) {
      return type_error(std::string("strftime_now: the conversion %") + format[i] + " is not supported");
    }
  }
  return {};
}

Result<Value> global_strftime_now(Interp& interp, const Value&, const Args& args) {
  QUERN_TRY(const Params params, bind("strftime_now", args, {"format"}, 1));
  if (!params.values[0].is(Kind::string)) return type_error("strftime_now needs a format string");
  if (!interp.options().now) return type_error("strftime_now needs a clock, and the caller gave none");
  const std::string_view format = params.values[0].text();
  QUERN_TRY_VOID(interp.charge(format.size(), format.size() * 16));
  std::string out;
  QUERN_TRY_VOID(append_times(out, format, interp.options().now()));
  return interp.heap().string(std::move(out));
}

struct Row {
  std::string_view name;
  Native call;
};
constexpr Row kGlobals[] = {{"cycler", global_cycler},
                            {"dict", global_dict},
                            {"joiner", global_joiner},
                            {"namespace", global_namespace},
                            {"raise_exception", global_raise_exception},
                            {"range", global_range},
                            {"strftime_now", global_strftime_now}};

class JsonReader {
 public:
  JsonReader(Heap& heap, bool is_content, std::span<const std::pair<std::string_view, std::string_view>> vocabulary)
      : heap_(heap), is_content_(is_content), vocabulary_(vocabulary) {}

  Result<Value> read(const nlohmann::ordered_json& json, std::string_view key, int depth) {
    heap_.spend(1, 0);
    if (depth > kMaxValueDepth) return Error{Status::limit_exceeded, "the input is nested too deeply"};
    if (heap_.exhausted()) return limit_error();
    switch (json.type()) {
      case nlohmann::json::value_t::boolean:
        return Value::of(json.get<bool>());
      case nlohmann::json::value_t::number_integer:
        return Value::of(json.get<int64_t>());
      case nlohmann::json::value_t::number_unsigned: {
        const auto number = json.get<uint64_t>();
        if (number <= static_cast<uint64_t>(INT64_MAX)) return Value::of(static_cast<int64_t>(number));
        return Value::of(static_cast<double>(number));
      }
      case nlohmann::json::value_t::number_float:
        return Value::of(json.get<double>());
      case nlohmann::json::value_t::string:
        return string(json.get_ref<const std::string&>(), key);
      case nlohmann::json::value_t::array: {
        std::vector<Value> items;
        for (const auto& item : json) {
          QUERN_TRY(const Value value, read(item, {}, depth + 1));
          items.push_back(value);
        }
        return heap_.list(std::move(items));
      }
      case nlohmann::json::value_t::object: {
        auto* dict = heap_.make<DictObj>();
        for (const auto& [name, item] : json.items()) {
          QUERN_TRY(const Value value, read(item, name, depth + 1));
          QUERN_TRY_VOID(dict_set(heap_, *dict, string(name, {}), value));
        }
        return Value(Kind::dict, dict);
      }
      default:
        return Value();
    }
  }

 private:
  Value string(const std::string& text, std::string_view key) {
    const Value value = heap_.literal(text);
    bool is_word = false;
    for (const auto& [known_key, word] : vocabulary_) is_word = is_word || (key == known_key && text == word);
    if (is_content_ && !is_word) add_span(value.as<StringObj>().content, 0, text.size());
    return value;
  }

  Heap& heap_;
  bool is_content_;
  std::span<const std::pair<std::string_view, std::string_view>> vocabulary_;
};

}  // namespace

Native find_global(std::string_view name) {
  const auto* row =
      std::find_if(std::begin(kGlobals), std::end(kGlobals), [&](const Row& r) { return r.name == name; });
  return row != std::end(kGlobals) ? row->call : nullptr;
}

Result<Value> from_json(Heap& heap, const nlohmann::ordered_json& json, bool is_content,
                        std::span<const std::pair<std::string_view, std::string_view>> vocabulary) {
  return JsonReader(heap, is_content, vocabulary).read(json, {}, 0);
}

}  // namespace quern::token::jinja
