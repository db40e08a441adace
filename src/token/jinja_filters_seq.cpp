// Filters on sequences and mappings: choosing, ordering, grouping, joining.
#include <algorithm>

#include "token/jinja_filters.h"

namespace quern::token::jinja {

Result<AttributePath> AttributePath::parse(Heap& heap, const Value& path) {
  AttributePath result;
  if (path.is(Kind::none)) return result;
  if (!path.is(Kind::string)) {
    result.parts_.push_back(path);
    return result;
  }
  QUERN_TRY(const Value parts, split(heap, path, heap.literal("."), -1, false));
  for (const auto& part : parts.items()) {
    const std::string_view text = part.text();
    const bool digits =
        !text.empty() && text.size() < 19 && text.find_first_not_of("0123456789") == std::string_view::npos;
    int64_t number = 0;
    for (size_t i = 0; digits && i < text.size(); ++i) number = number * 10 + (text[i] - '0');
    result.parts_.push_back(digits ? Value::of(number) : part);
  }
  return result;
}

Result<Value> AttributePath::get(Interp& interp, const Value& item, const Value& fallback) const {
  Value value = item;
  for (const auto& part : parts_) {
    QUERN_TRY(value, interp.item(value, part));
    if (value.is(Kind::undefined) && !fallback.is(Kind::none)) value = fallback;
  }
  return value;
}

Result<Value> ignore_case(Heap& heap, const Value& value) {
  return value.is(Kind::string) ? change_case(heap, value, CaseMap::lower) : Result<Value>(value);
}

namespace {

// Stable order of items by keys[i], descending where `reverse`; keys must be comparable with one another.
Result<std::vector<Value>> sorted(Heap& heap, const std::vector<Value>& items, const std::vector<Value>& keys,
                                  bool reverse) {
  std::vector<size_t> order(items.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  Error failure;
  bool failed = false;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (failed) return false;
    auto less = ordered(heap, reverse ? CompareOp::gt : CompareOp::lt, keys[a], keys[b]);
    if (less.ok()) return *less;
    failed = true;
    failure = less.error();
    return false;
  });
  if (failed) return failure;
  std::vector<Value> result;
  result.reserve(items.size());
  for (const size_t i : order) result.push_back(items[i]);
  return result;
}

Result<std::vector<Value>> keys_of(Interp& interp, const std::vector<Value>& items, const AttributePath& path,
                                   bool case_sensitive, const Value& fallback = {}) {
  std::vector<Value> keys;
  keys.reserve(items.size());
  for (const auto& item : items) {
    QUERN_TRY(Value key, path.get(interp, item, fallback));
    if (!case_sensitive) {
      QUERN_TRY(key, ignore_case(interp.heap(), key));
    }
    keys.push_back(key);
  }
  return keys;
}

Result<Value> filter_sort(Interp& interp, const Value& self, const Args& args) {
  Heap& heap = interp.heap();
  QUERN_TRY(const Params params, bind("sort", args, {"reverse", "case_sensitive", "attribute"}));
  QUERN_TRY(const auto items, to_vector(heap, self));
  const bool case_sensitive = truthy(params.values[1]);
  std::vector<Value> names = {params.values[2]};
  if (params.values[2].is(Kind::string)) {
    QUERN_TRY(const Value split_names, split(heap, params.values[2], heap.literal(","), -1, false));
    names = split_names.items();
  }
  std::vector<std::vector<Value>> columns;
  for (const auto& name : names) {
    QUERN_TRY(const AttributePath path, AttributePath::parse(heap, name));
    QUERN_TRY(auto column, keys_of(interp, items, path, case_sensitive));
    columns.push_back(std::move(column));
  }
  std::vector<Value> keys;
  for (size_t i = 0; i < items.size(); ++i) {
    std::vector<Value> key;
    for (const auto& column : columns) key.push_back(column[i]);
    keys.push_back(heap.list(std::move(key)));
  }
  QUERN_TRY(auto result, sorted(heap, items, keys, truthy(params.values[0])));
  return heap.list(std::move(result));
}

Result<Value> filter_dictsort(Interp& interp, const Value& self, const Args& args) {
  Heap& heap = interp.heap();
  QUERN_TRY(const Params params, bind("dictsort", args, {"case_sensitive", "by", "reverse"}));
  if (self.is(Kind::undefined)) return type_error(undefined_message(self));
  if (!self.is(Kind::dict)) return type_error(std::string("'") + type_name(self) + "' object has no attribute 'items'");
  const std::string_view by = params.has(1) && params.values[1].is(Kind::string) ? params.values[1].text() : "key";
  if (by != "key" && by != "value") return type_error("dictsort sorts by \"key\" or by \"value\"");
  std::vector<Value> items;
  std::vector<Value> keys;
  for (const auto& entry : self.dict().entries) {
    items.push_back(heap.list({entry.key, entry.value}, Kind::tuple));
    Value key = by == "key" ? entry.key : entry.value;
    if (!truthy(params.values[0])) {
      QUERN_TRY(key, ignore_case(heap, key));
    }
    keys.push_back(key);
  }
  QUERN_TRY(auto result, sorted(heap, items, keys, truthy(params.values[2])));
  return heap.list(std::move(result));
}

Result<Value> filter_unique(Interp& interp, const Value& self, const Args& args) {
  Heap& heap = interp.heap();
  QUERN_TRY(const Params params, bind("unique", args, {"case_sensitive", "attribute"}));
  QUERN_TRY(const auto items, to_vector(heap, self));
  QUERN_TRY(const AttributePath path, AttributePath::parse(heap, params.values[1]));
  QUERN_TRY(const auto keys, keys_of(interp, items, path, truthy(params.values[0])));
  auto* seen = heap.make<DictObj>();
  std::vector<Value> result;
  for (size_t i = 0; i < items.size(); ++i) {
    const size_t before = seen->entries.size();
    QUERN_TRY_VOID(dict_set(heap, *seen, keys[i], Value()));
    if (seen->entries.size() > before) result.push_back(items[i]);
  }
  return heap.generator(std::move(result));
}

template <bool largest>
Result<Value> filter_extreme(Interp& interp, const Value& self, const Args& args) {
  Heap& heap = interp.heap();
  QUERN_TRY(const Params params, bind("min or max", args, {"case_sensitive", "attribute"}));
  QUERN_TRY(const auto items, to_vector(heap, self));
  if (items.empty()) return heap.undefined("No aggregated item, sequence was empty.");
  QUERN_TRY(const AttributePath path, AttributePath::parse(heap, params.values[1]));
  QUERN_TRY(const auto keys, keys_of(interp, items, path, truthy(params.values[0])));
  size_t best = 0;
  for (size_t i = 1; i < items.size(); ++i) {
    QUERN_TRY(const bool better, ordered(heap, largest ? CompareOp::gt : CompareOp::lt, keys[i], keys[best]));
    if (better) best = i;
  }
  return items[best];
}

Result<Value> filter_sum(Interp& interp, const Value& self, const Args& args) {
  QUERN_TRY(const Params params, bind("sum", args, {"attribute", "start"}));
  QUERN_TRY(const auto items, to_vector(interp.heap(), self));
  QUERN_TRY(const AttributePath path, AttributePath::parse(interp.heap(), params.values[0]));
  Value total = params.given[1] ? params.values[1] : Value::of(int64_t{0});
  if (total.is(Kind::string)) return type_error("sum() can't sum strings");
  for (const auto& item : items) {
    QUERN_TRY(const Value value, path.get(interp, item));
    QUERN_TRY(total, interp.binary(BinaryOp::add, total, value));
  }
  return total;
}

Result<Value> filter_join(Interp& interp, const Value& self, const Args& args) {
  QUERN_TRY(const Params params, bind("join", args, {"d", "attribute"}));
  QUERN_TRY(const AttributePath path, AttributePath::parse(interp.heap(), params.values[1]));
  QUERN_TRY(Iterator iterator, Iterator::over(self));
  StringBuilder out(interp.heap());
  Value separator;
  if (params.given[0]) {
    QUERN_TRY(separator, to_str(interp.heap(), params.values[0]));
  }
  Value item;
  for (bool first = true; iterator.next(interp.heap(), item); first = false) {
    if (out.full() || interp.heap().exhausted()) return limit_error();
    if (!first && params.given[0]) out.append(separator.str());
    QUERN_TRY(const Value value, path.get(interp, item));
    QUERN_TRY_VOID(append_str(out, value));
  }
  return out.value();
}

Result<Value> filter_length(Interp&, const Value& self, const Args&) {
  QUERN_TRY(const int64_t length, length_of(self));
  return Value::of(length);
}

Result<Value> filter_list(Interp& interp, const Value& self, const Args&) {
  QUERN_TRY(auto items, to_vector(interp.heap(), self));
  return interp.heap().list(std::move(items));
}

Result<Value> filter_first(Interp& interp, const Value& self, const Args&) {
  QUERN_TRY(Iterator iterator, Iterator::over(self));
  Value item;
  if (iterator.next(interp.heap(), item)) return item;
  return interp.heap().undefined("No first item, sequence was empty.");
}

Result<Value> filter_last(Interp& interp, const Value& self, const Args&) {
  if (self.is(Kind::generator)) return type_error("'generator' object is not reversible");
  QUERN_TRY(const auto items, to_vector(interp.heap(), self));
  return items.empty() ? interp.heap().undefined("No last item, sequence was empty.") : items.back();
}

Result<Value> filter_reverse(Interp& interp, const Value& self, const Args&) {
  QUERN_TRY(auto items, to_vector(interp.heap(), self));
  std::reverse(items.begin(), items.end());
  if (!self.is(Kind::string)) return interp.heap().generator(std::move(items));
  StringBuilder out(interp.heap());
  for (const auto& item : items) out.append(item.str());
  return out.value();
}

Result<Value> filter_items(Interp& interp, const Value& self, const Args&) {
  if (self.is(Kind::undefined)) return interp.heap().generator({});
  if (!self.is(Kind::dict)) return type_error("can only get item pairs from a mapping");
  std::vector<Value> items;
  for (const auto& entry : self.dict().entries)
    items.push_back(interp.heap().list({entry.key, entry.value}, Kind::tuple));
  return interp.heap().generator(std::move(items));
}

Result<Value> filter_batch(Interp& interp, const Value& self, const Args& args) {
  Heap& heap = interp.heap();
  QUERN_TRY(const Params params, bind("batch", args, {"linecount", "fill_with"}, 1));
  QUERN_TRY(const int64_t size, integer_of(params.values[0], "linecount"));
  QUERN_TRY(const auto items, to_vector(heap, self));
  std::vector<Value> lines;
  std::vector<Value> line;
  for (const auto& item : items) {
    if (static_cast<int64_t>(line.size()) == size) lines.push_back(heap.list(std::exchange(line, {})));
    line.push_back(item);
  }
  if (!line.empty()) {
    const auto n = static_cast<int64_t>(line.size());
    if (params.has(1) && n < size) {
      QUERN_TRY_VOID(interp.charge(static_cast<uint64_t>(size - n), static_cast<uint64_t>(size - n) * sizeof(Value)));
      line.resize(static_cast<size_t>(size), params.values[1]);
    }
    lines.push_back(heap.list(std::move(line)));
  }
  return heap.generator(std::move(lines));
}

Result<Value> filter_slice(Interp& interp, const Value& self, const Args& args) {
  Heap& heap = interp.heap();
  QUERN_TRY(const Params params, bind("slice", args, {"slices", "fill_with"}, 1));
  QUERN_TRY(const int64_t slices, integer_of(params.values[0], "slices"));
  QUERN_TRY(const auto items, to_vector(heap, self));
  if (slices == 0) return type_error("division by zero");
  if (slices < 0) return heap.generator({});
  QUERN_TRY_VOID(interp.charge(static_cast<uint64_t>(slices), static_cast<uint64_t>(slices) * sizeof(ListObj)));
  const auto n = static_cast<int64_t>(items.size());
  const int64_t each = n / slices;
  const int64_t with_extra = n % slices;
  std::vector<Value> columns;
  auto next = items.begin();
  for (int64_t i = 0; i < slices; ++i) {
    const auto end = next + (each + (i < with_extra ? 1 : 0));
    std::vector<Value> column(next, end);
    if (params.has(1) && i >= with_extra) column.push_back(params.values[1]);
    columns.push_back(heap.list(std::move(column)));
    next = end;
  }
  return heap.generator(std::move(columns));
}

Result<Value> filter_groupby(Interp& interp, const Value& self, const Args& args) {
  Heap& heap = interp.heap();
  QUERN_TRY(const Params params, bind("groupby", args, {"attribute", "default", "case_sensitive"}, 1));
  const bool case_sensitive = truthy(params.values[2]);
  QUERN_TRY(const AttributePath path, AttributePath::parse(heap, params.values[0]));
  QUERN_TRY(const auto unsorted, to_vector(heap, self));
  QUERN_TRY(const auto unsorted_keys, keys_of(interp, unsorted, path, case_sensitive, params.values[1]));
  QUERN_TRY(const auto items, sorted(heap, unsorted, unsorted_keys, false));
  QUERN_TRY(const auto keys, keys_of(interp, items, path, case_sensitive, params.values[1]));
  std::vector<Value> groups;
  for (size_t begin = 0; begin < items.size();) {
    size_t end = begin + 1;
    for (bool same = true; same && end < items.size(); end += same ? 1 : 0) {
      QUERN_TRY(same, equal(heap, keys[begin], keys[end]));
    }
    QUERN_TRY(const Value grouper, path.get(interp, items[begin], params.values[1]));
    const Value members = heap.list(std::vector<Value>(items.begin() + static_cast<std::ptrdiff_t>(begin),
                                                       items.begin() + static_cast<std::ptrdiff_t>(end)));
    const Value group = heap.list({grouper, members}, Kind::tuple);
    group.as<ListObj>().is_group = true;
    groups.push_back(group);
    begin = end;
  }
  return heap.list(std::move(groups));
}

Result<Value> filter_map(Interp& interp, const Value& self, const Args& args) {
  Heap& heap = interp.heap();
  if (!truthy(self)) return heap.generator({});
  QUERN_TRY(const auto items, to_vector(heap, self));
  std::vector<Value> results;
  results.reserve(items.size());
  if (args.positional.empty()) {
    QUERN_TRY(const Params params, bind("map", args, {"attribute", "default"}, 1));
    QUERN_TRY(const AttributePath path, AttributePath::parse(heap, params.values[0]));
    for (const auto& item : items) {
      QUERN_TRY(const Value value, path.get(interp, item, params.values[1]));
      results.push_back(value);
    }
    return heap.generator(std::move(results));
  }
  if (!args.positional[0].is(Kind::string)) return type_error("map requires the name of a filter");
  Args rest = args;
  rest.positional.erase(rest.positional.begin());
  for (const auto& item : items) {
    QUERN_TRY(const Value value, interp.filter(args.positional[0].text(), item, rest));
    results.push_back(value);
  }
  return heap.generator(std::move(results));
}

template <bool keep, bool by_attribute>
Result<Value> filter_select(Interp& interp, const Value& self, const Args& args) {
  Heap& heap = interp.heap();
  if (!truthy(self)) return heap.generator({});
  Args rest = args;
  AttributePath path;
  if constexpr (by_attribute) {
    if (rest.positional.empty()) return type_error("missing parameter for attribute name");
    QUERN_TRY(path, AttributePath::parse(heap, rest.positional[0]));
    rest.positional.erase(rest.positional.begin());
  }
  std::string_view test;
  if (!rest.positional.empty()) {
    if (!rest.positional[0].is(Kind::string)) return type_error("select requires the name of a test");
    test = rest.positional[0].text();
    rest.positional.erase(rest.positional.begin());
  }
  QUERN_TRY(const auto items, to_vector(heap, self));
  std::vector<Value> results;
  for (const auto& item : items) {
    QUERN_TRY(const Value value, path.get(interp, item));
    bool passed = truthy(value);
    if (test.data() != nullptr) {
      QUERN_TRY(passed, interp.test(test, value, rest));
    }
    if (passed == keep) results.push_back(item);
  }
  return heap.generator(std::move(results));
}

constexpr FilterRow kRows[] = {
    {"batch", filter_batch},
    {"count", filter_length},
    {"dictsort", filter_dictsort},
    {"first", filter_first},
    {"groupby", filter_groupby},
    {"items", filter_items},
    {"join", filter_join},
    {"last", filter_last},
    {"length", filter_length},
    {"list", filter_list},
    {"map", filter_map},
    {"max", filter_extreme<true>},
    {"min", filter_extreme<false>},
    {"reject", filter_select<false, false>},
    {"rejectattr", filter_select<false, true>},
    {"reverse", filter_reverse},
    {"select", filter_select<true, false>},
    {"selectattr", filter_select<true, true>},
    {"slice", filter_slice},
    {"sort", filter_sort},
    {"sum", filter_sum},
    {"unique", filter_unique},
};

}  // namespace

std::span<const FilterRow> sequence_filters() {
  return kRows;
}

}  // namespace quern::token::jinja
