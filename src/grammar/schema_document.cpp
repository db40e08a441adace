// Parsing of schema texts and resolving of references.
#include "grammar/schema_document.h"

#include <algorithm>
#include <set>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/schema_number.h"

namespace quern::grammar {

Error schema_error(Status status, const std::string& pointer, const std::string& what) {
  return Error{status, "schema at '" + (pointer.empty() ? "#" : "#" + pointer) + "': " + what};
}

std::string SchemaRef::below(std::string_view name) const {
  constexpr size_t kMaxPointer = 1000;
  if (pointer.size() > kMaxPointer) return pointer;
  std::string out = pointer + "/";
  for (const char c : name.substr(0, kMaxPointer)) {
    if (c == '~')
      out += "~0";
    else if (c == '/')
      out += "~1";
    else
      out += c;
  }
  return out;
}

SchemaRef SchemaRef::at(std::string_view keyword) const {
  return {&*node->find(std::string(keyword)), below(keyword)};
}

SchemaRef SchemaRef::at(size_t i) const {
  return {&(*node)[i], below(std::to_string(i))};
}

std::string value_key(const Json& value) {
  if (!value.is_number()) return nlohmann::json(value).dump();
  const Decimal decimal = decimal_of(value);
  return (decimal.negative ? "-" : "") + decimal.whole + "." + decimal.fraction;
}

namespace {

// The deepest nesting of brackets, without regard to whether they match; the parser is not asked before this is small.
size_t nesting(std::string_view text) {
  size_t depth = 0, deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      deepest = std::max(deepest, ++depth);
    } else if ((c == '}' || c == ']') && depth > 0) {
      --depth;
    }
  }
  return deepest;
}

bool hex_digit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && hex_digit(text[i + 1]) && hex_digit(text[i + 2])) {
      out += static_cast<char>(std::stoi(std::string(text.substr(i + 1, 2)), nullptr, 16));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace

Result<SchemaDocument> SchemaDocument::parse(std::string_view text) {
  if (text.size() > Grammar::kMaxText) return Error{Status::limit_exceeded, "the schema is longer than 4 MiB"};
  if (nesting(text) > Grammar::kMaxDepth) {
    return Error{Status::limit_exceeded,
                 "the schema nests deeper than " + std::to_string(Grammar::kMaxDepth) + " levels"};
  }
  std::vector<std::set<std::string>> keys;
  std::string twice;
  const auto watch = [&](int, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second && twice.empty()) {
      twice = value.get<std::string>();
    }
    return true;
  };
  SchemaDocument document;
  try {
    document.root_ = std::make_shared<const Json>(Json::parse(text, watch));
  } catch (const Json::exception& e) {
    return Error{Status::invalid_argument, std::string("the schema is not JSON: ") + e.what()};
  }
  if (!twice.empty())
    return Error{Status::invalid_argument, "the schema has the key '" + twice + "' twice in one object"};
  if (text.find("$anchor") != std::string_view::npos) document.find_anchors();
  const auto id = document.root_->is_object() ? document.root_->find("$id") : document.root_->end();
  if (id != document.root_->end() && id->is_string()) document.id_ = id->get<std::string>();
  return document;
}

void SchemaDocument::find_anchors() {
  const auto text_of = [](const Json& node, const char* key) -> std::string {
    const auto it = node.find(key);
    return it != node.end() && it->is_string() ? it->get<std::string>() : "";
  };
  std::vector<SchemaRef> work{root()};
  while (!work.empty()) {
    const SchemaRef at = std::move(work.back());
    work.pop_back();
    if (at.node->is_object()) {
      const std::string anchor = text_of(*at.node, "$anchor");
      if (!anchor.empty()) anchors_.emplace(anchor, at);
      for (const auto& [key, value] : at.node->items()) {
        if (value.is_structured() && key != "enum" && key != "const") work.push_back(at.at(key, value));
      }
    } else if (at.node->is_array()) {
      for (size_t i = 0; i < at.node->size(); ++i) {
        if ((*at.node)[i].is_structured()) work.push_back(at.at(i));
      }
    }
  }
}

const Json* SchemaDocument::member(const Json& object, const std::string& name) const {
  constexpr size_t kFew = 16;
  if (object.size() <= kFew) {
    const auto it = object.find(name);
    return it != object.end() ? &*it : nullptr;
  }
  auto& index = members_[&object];
  if (index.empty()) {
    for (const auto& [key, value] : object.items()) index.emplace(key, &value);
  }
  const auto it = index.find(name);
  return it != index.end() ? it->second : nullptr;
}

Result<SchemaRef> SchemaDocument::by_pointer(std::string_view pointer, const std::string& ref,
                                             const std::string& from) const {
  SchemaRef at = root();
  while (!pointer.empty()) {
    const size_t end = std::min(pointer.find('/', 1), pointer.size());
    std::string name;
    for (size_t i = 1; i < end; ++i) {
      const bool escaped = pointer[i] == '~' && i + 1 < end && (pointer[i + 1] == '0' || pointer[i + 1] == '1');
      name += escaped ? (pointer[++i] == '0' ? '~' : '/') : pointer[i];
    }
    pointer.remove_prefix(end);
    if (const Json* found = at.node->is_object() ? member(*at.node, name) : nullptr) {
      at = at.at(name, *found);
      continue;
    }
    const bool number = !name.empty() && name.size() < 8 && name.find_first_not_of("0123456789") == std::string::npos;
    if (at.node->is_array() && number && std::stoul(name) < at.node->size()) {
      at = at.at(std::stoul(name));
      continue;
    }
    return schema_error(Status::invalid_argument, from, "$ref \"" + ref + "\" points to nothing");
  }
  return at;
}

Result<SchemaRef> SchemaDocument::resolve(const std::string& ref, const std::string& from) const {
  std::string_view rest = ref;
  if (!id_.empty() && rest.substr(0, id_.size()) == id_) rest.remove_prefix(id_.size());
  if (rest.empty() && !ref.empty()) return root();
  if (rest.empty() || rest[0] != '#') {
    return schema_error(Status::unsupported, from,
                        "$ref \"" + ref + "\" is not of the form #/..., so not in this document");
  }
  const std::string fragment = percent_decoded(rest.substr(1));
  if (fragment.empty() || fragment[0] == '/') return by_pointer(fragment, ref, from);
  const auto found = anchors_.find(fragment);
  if (found == anchors_.end())
    return schema_error(Status::invalid_argument, from, "$ref \"" + ref + "\" names no $anchor");
  return found->second;
}

}  // namespace quern::grammar
